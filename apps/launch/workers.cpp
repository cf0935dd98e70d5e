// SPDX-License-Identifier: Apache-2.0
#include "apps/launch/workers.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <random>

#include "comm/tcp_socket.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

extern char** environ;

namespace bora::launch {
namespace {

using Clock = std::chrono::steady_clock;

// A rank that fails tells the others why, and they say so themselves.
constexpr double kOwnEnd_s = 1;

const sigset_t& watched_signals() {
  static const sigset_t set = [] {
    sigset_t s;
    sigemptyset(&s);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2})
      sigaddset(&s, signal);
    // Under nohup it is ignored, and must be by the workers as well.
    if (::signal(SIGHUP, SIG_DFL) == SIG_IGN) {
      ::signal(SIGHUP, SIG_IGN);
    } else {
      sigaddset(&s, SIGHUP);
    }
    return s;
  }();
  return set;
}

// Variables of another launcher: to the workers they would say that MPI has started them.
void forget_other_launchers() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    for (const char* prefix : {"OMPI_COMM_WORLD_", "PMIX_", "PMI_"})
      if (text.starts_with(prefix)) names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

}  // namespace

Workers::Workers(const Options& options)
    : options_(options),
      port_(options.master_port),
      workers_(static_cast<size_t>(options.workers)) {}

int Workers::run() {
  tcp::Socket listener;
  if (options_.master_host.empty()) {
    // Handed on to rank 0 open, so that no other launch can take the port in between.
    listener = tcp::listen_at(tcp::parse_endpoint("127.0.0.1:0"));
    listener_ = listener.fd();
    port_ = tcp::local_end(listener_).port();
    std::random_device random;
    token_ = detail::join(std::hex, random(), random());
  }
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &watched_signals(), &before);
  for (int i = 0; i < options_.workers; ++i) start(i);
  listener.close();

  enum class Stage { running, failed, terminated, killed } stage = Stage::running;
  auto next = Clock::time_point::max();
  const auto after = [](double s) {
    return Clock::now() +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
  };
  while (n_running() > 0) {
    timespec wait{0, 100'000'000};
    const int signal = ::sigtimedwait(&watched_signals(), nullptr, &wait);
    if (signal > 0 && signal != SIGCHLD) kill_all(signal);
    reap();
    if (stage == Stage::running && code_ != 0) {
      stage = Stage::failed;
      next = after(kOwnEnd_s);
    }
    if (Clock::now() < next) continue;
    if (stage == Stage::failed) {
      kill_all(SIGTERM);
      stage = Stage::terminated;
      next = after(options_.grace_s);
    } else if (stage == Stage::terminated) {
      kill_all(SIGKILL);
      stage = Stage::killed;
      next = Clock::time_point::max();
    }
  }
  // What the workers have started and left behind.
  for (const Worker& worker : workers_)
    if (worker.group > 0) ::kill(-worker.group, SIGKILL);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return code_;
}

void Workers::start(int local) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    const int error = errno;
    kill_all(SIGKILL);
    BORA_FAIL("bora_launch: worker ", local, " cannot be started: ", std::strerror(error));
  }
  if (pid == 0) {
    // Should the launcher be killed, its workers end as well.
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);
    become_worker(local);
  }
  ::setpgid(pid, pid);  // here and there: whoever comes first
  workers_[static_cast<size_t>(local)] = {pid, pid};
}

void Workers::become_worker(int local) {
  // A group of its own: a terminal's Ctrl-C reaches the launcher alone, which passes it on once.
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // A shell's background jobs ignore these two; what the launcher passes on is meant.
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGQUIT, SIG_DFL);
  if (local != 0 || ::isatty(STDIN_FILENO) != 0) {
    const int null = ::open("/dev/null", O_RDONLY);
    ::dup2(null, STDIN_FILENO);
    ::close(null);
  }
  forget_other_launchers();
  const int rank = options_.node * options_.workers + local;
  set("RANK", std::to_string(rank));
  set("WORLD_SIZE", std::to_string(options_.nodes * options_.workers));
  set("LOCAL_RANK", std::to_string(local));
  set("LOCAL_WORLD_SIZE", std::to_string(options_.workers));
  set("MASTER_ADDR", options_.master_host.empty() ? "127.0.0.1" : options_.master_host);
  set("MASTER_PORT", std::to_string(port_));
  if (!options_.interface.empty()) set("BORA_INTERFACE", options_.interface);
  ::unsetenv("BORA_LISTENER");
  if (!token_.empty()) set("BORA_LAUNCH_TOKEN", token_);
  if (listener_ >= 0 && rank == 0) {
    ::fcntl(listener_, F_SETFD, 0);  // stays open in the program
    set("BORA_LISTENER", std::to_string(listener_));
  }
  std::vector<char*> arguments;
  for (const std::string& word : options_.command)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  const int error = errno;
  if (local == 0)
    log_error("bora_launch: ", options_.command[0], " cannot be started: ", std::strerror(error));
  ::_exit(error == ENOENT ? 127 : 126);
}

void Workers::reap() {
  // waitpid does not say who died first: of several the one that a signal ended is the cause, since
  // ranks that lose another end with a code.
  int culprit = -1, culprit_status = 0;
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) break;
    const auto worker = std::find_if(workers_.begin(), workers_.end(),
                                     [&](const Worker& w) { return w.pid == pid; });
    if (worker == workers_.end()) continue;
    worker->pid = -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    if (culprit >= 0 && !(WIFSIGNALED(status) && !WIFSIGNALED(culprit_status))) continue;
    culprit = static_cast<int>(worker - workers_.begin());
    culprit_status = status;
  }
  if (culprit < 0 || code_ != 0) return;
  const int rank = options_.node * options_.workers + culprit;
  if (WIFSIGNALED(culprit_status)) {
    const int signal = WTERMSIG(culprit_status);
    code_ = 128 + signal;
    log_warn("bora_launch: rank ", rank, " was ended by signal ", signal, " (", ::strsignal(signal),
             "); stopping the others");
  } else {
    code_ = WEXITSTATUS(culprit_status);
    log_warn("bora_launch: rank ", rank, " ended with code ", code_, "; stopping the others");
  }
}

void Workers::kill_all(int signal) {
  for (const Worker& worker : workers_)
    if (worker.pid > 0) ::kill(-worker.group, signal);
}

int Workers::n_running() const {
  return static_cast<int>(
      std::count_if(workers_.begin(), workers_.end(), [](const Worker& w) { return w.pid > 0; }));
}

}  // namespace bora::launch
