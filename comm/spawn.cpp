// SPDX-License-Identifier: Apache-2.0
#include "comm/spawn.hpp"

#include "comm/launcher.hpp"
#include "comm/tcp_rendezvous.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace bora {
namespace {

// From the first failure until the other ranks, which hear of it, are killed.
constexpr double kToEnd_s = 15;

int n_threads() {
  int n = 0;
  DIR* tasks = ::opendir("/proc/self/task");
  BORA_CHECK(tasks != nullptr, "spawn_ranks: /proc/self/task: ", std::strerror(errno));
  while (const dirent* entry = ::readdir(tasks))
    if (entry->d_name[0] != '.') ++n;
  ::closedir(tasks);
  return n;
}

struct Rank {
  pid_t pid = -1;
  int pipe = -1;        // its error's text
  std::string text;     // 'u' or 'e', then the message
  bool killed = false;  // by this process
};

[[noreturn]] void be_rank(const LaunchPlace& place, int pipe,
                          const std::function<void(Session&)>& body) {
  const auto tell = [&](const std::exception& error) {
    const std::string text = tcp::fault_of(error);
    for (size_t at = 0; at < text.size();) {
      const ssize_t n = ::write(pipe, text.data() + at, text.size() - at);
      if (n < 0 && errno != EINTR) break;
      if (n > 0) at += static_cast<size_t>(n);
    }
  };
  int code = 1;
  try {
    Session session(place);
    try {
      body(session);
      code = 0;
    } catch (const UsageError& e) {
      tell(e);
      code = 2;
    } catch (const std::exception& e) {
      tell(e);
    } catch (...) {
      tell(Error("an exception of unknown type"));
    }
    // The parent prints the text, or whoever catches it there.
    code = session.conclude(code, "");
  } catch (const std::exception& e) {
    tell(e);
  }
  std::fflush(nullptr);
  std::_Exit(code);  // what the parent registered for its end is the parent's
}

// The text of the first failure that tells more than its consequences do: a signal before a text,
// since the others' texts then speak of the loss.
void throw_first(int rank, const std::string& text, int status) {
  if (WIFSIGNALED(status))
    BORA_FAIL("spawn_ranks: rank ", rank, " was ended by signal ", WTERMSIG(status), " (",
              ::strsignal(WTERMSIG(status)), ")");
  if (!text.empty()) {
    const std::string message = detail::join("rank ", rank, ": ", text.substr(1));
    if (text[0] == 'u') throw UsageError(message);
    throw Error(message);
  }
  BORA_FAIL("spawn_ranks: rank ", rank, " has ended with code ", WEXITSTATUS(status));
}

}  // namespace

void spawn_ranks(int n, const std::function<void(Session&)>& body) {
  BORA_CHECK(n > 0, "spawn_ranks: ", n, " ranks, wanted 1 at least");
  BORA_CHECK(static_cast<bool>(body), "spawn_ranks: wants something to run");
  const int threads = n_threads();
  BORA_CHECK(threads == 1, "spawn_ranks: the process has ", threads,
             " threads, wanted 1: call it before anything that starts some (parallel loops, a "
             "communicator, a loader)");
  tcp::Socket listener = tcp::listen_at(tcp::parse_endpoint("127.0.0.1:0"));
  std::random_device random;
  LaunchPlace place;
  place.size = n;
  place.master_host = "127.0.0.1";
  place.master_port = tcp::local_end(listener.fd()).port();
  place.token = detail::join(std::hex, random(), random());
  place.told_by = "spawn_ranks";

  std::fflush(nullptr);  // or the children would print it again
  std::vector<Rank> ranks(static_cast<size_t>(n));
  std::vector<size_t> order;  // of failures, as they are heard of
  std::string fault;          // of this process
  const pid_t parent = ::getpid();
  for (int r = 0; r < n && fault.empty(); ++r) {
    int ends[2] = {-1, -1};
    const pid_t pid = ::pipe2(ends, O_CLOEXEC) == 0 ? ::fork() : -1;
    if (pid < 0) fault = detail::join("spawn_ranks: rank ", r, ": ", std::strerror(errno));
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) std::_Exit(1);
      for (const Rank& other : ranks)
        if (other.pipe >= 0) ::close(other.pipe);
      ::close(ends[0]);
      place.rank = r;
      if (r == 0) place.listener = ::fcntl(listener.fd(), F_DUPFD_CLOEXEC, 3);
      listener.close();
      be_rank(place, ends[1], body);
    }
    if (ends[1] >= 0) ::close(ends[1]);
    ranks[static_cast<size_t>(r)] = {pid, ends[0], {}, false};
  }
  listener.close();

  auto deadline = fault.empty() ? tcp::Clock::time_point::max() : tcp::Clock::now();
  std::vector<int> status(ranks.size(), 0);
  const auto failed = [&](size_t r) {
    if (std::find(order.begin(), order.end(), r) == order.end()) order.push_back(r);
    if (deadline == tcp::Clock::time_point::max()) deadline = tcp::after(kToEnd_s);
  };
  const auto is_open = [](const Rank& r) { return r.pipe >= 0; };
  while (std::any_of(ranks.begin(), ranks.end(), is_open)) {
    std::vector<pollfd> polls;
    for (const Rank& r : ranks) polls.push_back({r.pipe, POLLIN, 0});
    const bool limited = deadline != tcp::Clock::time_point::max();
    const int ready =
        ::poll(polls.data(), polls.size(), limited ? tcp::milliseconds_until(deadline) : -1);
    if (ready == 0 && limited) {
      for (Rank& r : ranks)
        if (r.pid > 0 && r.pipe >= 0) r.killed = ::kill(r.pid, SIGKILL) == 0;
      deadline = tcp::after(kToEnd_s);
    }
    for (size_t r = 0; r < ranks.size(); ++r) {
      if (polls[r].revents == 0) continue;
      char part[512];
      const ssize_t got = ::read(ranks[r].pipe, part, sizeof(part));
      if (got > 0) {
        ranks[r].text.append(part, static_cast<size_t>(got));
        failed(r);
      } else if (got == 0 || errno != EINTR) {
        // It has ended, or closed everything, which ranks do not do.
        ::close(std::exchange(ranks[r].pipe, -1));
        while (::waitpid(ranks[r].pid, &status[r], 0) < 0 && errno == EINTR) {
        }
        if (!WIFEXITED(status[r]) || WEXITSTATUS(status[r]) != 0) failed(r);
      }
    }
  }
  BORA_CHECK(fault.empty(), fault);
  for (const size_t r : order)
    if (WIFSIGNALED(status[r]) && !ranks[r].killed)
      throw_first(static_cast<int>(r), ranks[r].text, status[r]);
  for (const size_t r : order)
    if (!ranks[r].text.empty()) throw_first(static_cast<int>(r), ranks[r].text, status[r]);
  if (!order.empty())
    throw_first(static_cast<int>(order[0]), ranks[order[0]].text, status[order[0]]);
}

}  // namespace bora
