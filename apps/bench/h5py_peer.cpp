// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/h5py_peer.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <sstream>

#include "core/error.hpp"

extern char** environ;

namespace bora::bench {

H5pyPeer::H5pyPeer(const std::string& python, const std::string& script, int processes) {
  std::array<int, 2> in{}, out{};
  BORA_CHECK(::pipe2(in.data(), O_CLOEXEC) == 0 && ::pipe2(out.data(), O_CLOEXEC) == 0,
             "bench_data: no pipe could be made");
  const std::string n = std::to_string(processes);
  std::array<char*, 4> args{const_cast<char*>(python.c_str()), const_cast<char*>(script.c_str()),
                            const_cast<char*>(n.c_str()), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  ::posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  pid_t pid = -1;
  const int code = ::posix_spawnp(&pid, python.c_str(), &actions, nullptr, args.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(in[0]);
  ::close(out[1]);
  to_ = ::fdopen(in[1], "w");
  from_ = ::fdopen(out[0], "r");
  BORA_CHECK(code == 0, "bench_data: cannot start '", python, "': ", std::strerror(code));
  process_ = pid;
  ::signal(SIGPIPE, SIG_IGN);
  version_ = ask("");
  BORA_CHECK(version_.starts_with("ready "), "bench_data: '", python, " ", script,
             "' does not start; it needs h5py and numpy (--h5py=PYTHON names an interpreter)");
  version_ = version_.substr(6);
}

H5pyPeer::~H5pyPeer() {
  std::fclose(to_);
  std::fclose(from_);
  if (process_ > 0) ::waitpid(process_, nullptr, 0);
}

std::string H5pyPeer::ask(const std::string& line) {
  if (!line.empty()) {
    std::fputs((line + "\n").c_str(), to_);
    std::fflush(to_);
  }
  std::array<char, 512> text{};
  if (std::fgets(text.data(), static_cast<int>(text.size()), from_) == nullptr) return {};
  std::string answer = text.data();
  if (!answer.empty() && answer.back() == '\n') answer.pop_back();
  return answer;
}

void H5pyPeer::open(const std::vector<std::string>& paths) {
  std::string line = "files";
  for (const std::string& p : paths) line += " " + p;
  BORA_CHECK(!ask(line).empty(), "bench_data: the h5py process ended while opening files");
}

H5pyPeer::Answer H5pyPeer::read(const std::string& table) {
  std::istringstream answer(ask("read " + table));
  Answer a;
  BORA_CHECK(answer >> a.seconds >> a.sum, "bench_data: the h5py process ended while reading");
  return a;
}

}  // namespace bora::bench
