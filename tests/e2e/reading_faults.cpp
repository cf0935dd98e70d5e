// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program: a file system without locks, one that hangs, and a fork after MPI_Init.
//
//   BORA_FLOCK=<errno>       every flock() and lock by fcntl() fails with it
//   BORA_HANG=<text>         opening a file whose path has the text hangs ...
//   BORA_HANG_FROM=<n>       ... from the n-th time on (1)
//   BORA_NO_FORK=1           what starts a process after MPI_Init ends this one with code 86
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

std::atomic<bool> mpi_is_up{false};
std::atomic<int> n_opened{0};

void trap(const char* what) {
  if (!mpi_is_up || std::getenv("BORA_NO_FORK") == nullptr) return;
  std::fprintf(stderr, "reading_faults: %s after MPI_Init\n", what);
  ::_exit(86);
}

void hang_if_told(const char* path) {
  const char* text = std::getenv("BORA_HANG");
  if (text == nullptr || path == nullptr || std::strstr(path, text) == nullptr) return;
  const char* from = std::getenv("BORA_HANG_FROM");
  if (++n_opened < (from != nullptr ? std::atoi(from) : 1)) return;
  while (true) ::pause();
}

bool lock_fails() {
  const char* code = std::getenv("BORA_FLOCK");
  if (code == nullptr) return false;
  errno = std::atoi(code);
  return true;
}

}  // namespace

extern "C" {

int flock(int fd, int operation) {
  if (lock_fails()) return -1;
  return next<int(int, int)>("flock")(fd, operation);
}

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const auto mode = va_arg(list, mode_t);
  va_end(list);
  hang_if_told(path);
  return next<int(const char*, int, ...)>("open")(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const auto mode = va_arg(list, mode_t);
  va_end(list);
  hang_if_told(path);
  return next<int(const char*, int, ...)>("open64")(path, flags, mode);
}

int MPI_Init_thread(int* argc, char*** argv, int wanted, int* given) {
  const int code =
      next<int(int*, char***, int, int*)>("MPI_Init_thread")(argc, argv, wanted, given);
  mpi_is_up = true;
  return code;
}

pid_t fork() {
  trap("fork()");
  return next<pid_t()>("fork")();
}

int system(const char* command) {
  trap("system()");
  return next<int(const char*)>("system")(command);
}

FILE* popen(const char* command, const char* mode) {
  trap("popen()");
  return next<FILE*(const char*, const char*)>("popen")(command, mode);
}

int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* attributes, char* const argv[], char* const environ_[]) {
  trap("posix_spawn()");
  return next<decltype(posix_spawn)>("posix_spawn")(pid, path, actions, attributes, argv, environ_);
}

}  // extern "C"
