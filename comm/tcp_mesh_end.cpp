// SPDX-License-Identifier: Apache-2.0
// How connections end, well and otherwise.
#include "comm/tcp_mesh.hpp"
#include "comm/transport.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

#include <poll.h>

#include <algorithm>
#include <cstdlib>

namespace bora::tcp {
namespace {

// From the loss of a rank until this process has ended.
constexpr double kToEnd_s = 10;
// For the others' last words.
constexpr double kLastWords_s = 1;

}  // namespace

void Mesh::fail(const std::string& why) {
  if (failed_) return;
  failure_ = why;
  failed_ = true;
}

void Mesh::has_ended(int rank, const std::string& why) {
  Link& other = link(rank);
  if (other.state != State::open) return;
  other.state = State::lost;
  if (leaving_) return;
  fail(detail::join("rank ", rank, " on host ", other.host, " is lost (", why,
                    "); noticed by rank ", rank_, " on host ",
                    links_[static_cast<size_t>(rank_)].host));
}

void Mesh::has_finished(int rank) {
  Link& other = link(rank);
  other.state = State::finished;
  const bool owed = !other.posted.empty() ||
                    std::any_of(offered_.begin(), offered_.end(),
                                [&](const auto& entry) { return entry.second->peer == rank; });
  if (!leaving_ && owed)
    fail(detail::join("rank ", rank, " on host ", other.host, " has ended its run while rank ",
                      rank_, " still exchanges data with it"));
}

template <class Done>
void Mesh::move_until(Clock::time_point deadline, Done&& done) {
  while (!done() && milliseconds_until(deadline) > 0) {
    move_all();
    if (done()) return;
    std::vector<pollfd> polls;
    for (const Link& l : links_)
      if (l.socket && l.state == State::open)
        polls.push_back({l.socket.fd(), static_cast<short>(POLLIN | (l.blocked ? POLLOUT : 0)), 0});
    ::poll(polls.data(), polls.size(), std::min(10, milliseconds_until(deadline)));
  }
}

void Mesh::goodbye() {
  if (size() == 1) return;
  const std::lock_guard lock(mutex_);
  leaving_ = true;
  Frame frame;
  frame.kind = Frame::goodbye;
  for (int r = 0; r < size(); ++r)
    if (r != rank_ && link(r).state != State::lost) put(r, {frame, nullptr, nullptr});
  // Who closes with something unread may take what it said last away from the other side.
  move_until(after(kLastWords_s), [&] {
    return all_written() && std::all_of(links_.begin(), links_.end(), [](const Link& l) {
             return !l.socket || l.state != State::open;
           });
  });
}

void Mesh::abort(int code) {
  if (size() > 1) {
    // Another thread may be stuck in here; an end without a word is an end all the same.
    std::unique_lock lock(mutex_, std::defer_lock);
    for (const auto deadline = after(kLastWords_s); !lock.try_lock();) {
      if (milliseconds_until(deadline) == 0) std::_Exit(code);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    leaving_ = true;
    Frame frame;
    frame.kind = Frame::abort;
    frame.id = static_cast<uint64_t>(code);
    for (int r = 0; r < size(); ++r) {
      if (r == rank_ || link(r).state != State::open) continue;
      link(r).bulk.clear();
      link(r).urgent.push_front({frame, nullptr, nullptr});
    }
    move_until(after(kLastWords_s), [&] {
      return std::all_of(links_.begin(), links_.end(), [](const Link& l) {
        return !l.socket || l.state != State::open || (!l.writing && l.urgent.empty());
      });
    });
    for (const Link& l : links_)
      if (l.socket) ::shutdown(l.socket.fd(), SHUT_WR);
    move_until(after(kLastWords_s), [&] {
      return std::all_of(links_.begin(), links_.end(),
                         [](const Link& l) { return !l.socket || l.state != State::open; });
    });
  }
  std::_Exit(code);
}

// Sleeps until a connection ends; data does not wake it.
void Mesh::watch() {
  Clock::time_point deadline = Clock::time_point::max();
  for (;;) {
    std::vector<pollfd> polls{{wake_, POLLIN, 0}};
    {
      const std::lock_guard lock(mutex_);
      for (const Link& l : links_)
        if (l.socket && l.state == State::open) polls.push_back({l.socket.fd(), POLLRDHUP, 0});
      if (failed_ && deadline == Clock::time_point::max()) deadline = after(kToEnd_s);
    }
    const bool failed = deadline != Clock::time_point::max();
    // A loss that another thread noticed does not wake it either.
    constexpr int kLook_ms = 1000;
    const int n = ::poll(polls.data(), polls.size(),
                         failed ? std::min(kLook_ms, milliseconds_until(deadline)) : kLook_ms);
    if (polls[0].revents != 0) return;
    if (failed && milliseconds_until(deadline) == 0) {
      log_error("host ", host(rank_), ": ", failure_, "; ", kToEnd_s,
                " s later this rank is still busy, and ends");
      std::_Exit(1);
    }
    if (n <= 0) continue;
    const std::lock_guard lock(mutex_);
    move_all();
  }
}

}  // namespace bora::tcp
