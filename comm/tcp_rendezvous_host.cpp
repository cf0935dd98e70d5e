// SPDX-License-Identifier: Apache-2.0
// Rank 0's part of the meeting.
#include "comm/tcp_rendezvous.hpp"
#include "core/error.hpp"
#include "core/host.hpp"
#include "core/log.hpp"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <random>

namespace bora::tcp {
namespace {

// Who connects and says nothing for so long is no rank.
constexpr double kSilence_s = 10;

int number(const std::string& text) {
  int value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string random_word() {
  std::random_device random;
  return detail::join(std::hex, random(), "-", random());
}

// The listener that a launcher has opened, so that nobody else could take the port.
Socket inherited_listener(const LaunchPlace& place) {
  int listens = 0;
  socklen_t length = sizeof(listens);
  const int fd = place.listener;
  if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0 ||
      local_end(fd).port() != place.master_port)
    return {};
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  return Socket(fd);
}

Socket listen_at_master(const LaunchPlace& place) {
  if (place.listener >= 0)
    if (Socket inherited = inherited_listener(place)) return inherited;
  int code = 0;
  try {
    // A name may mean another address here than elsewhere; figures mean what they say.
    if (!is_numeric(place.master_host)) return listen_anywhere(place.master_port, &code);
    const Endpoint at = resolve(place.master_host, place.master_port).front();
    try {
      return listen_at(at, &code);
    } catch (const Error&) {
      if (code != EADDRNOTAVAIL) throw;
      log_warn("MASTER_ADDR=", place.master_host, " is no address of this host, ", host_name(),
               ", where rank 0 runs; the others may look for it in vain");
      return listen_anywhere(place.master_port, &code);
    }
  } catch (const Error& e) {
    if (code != EADDRINUSE) throw;
    BORA_FAIL("rank 0 cannot listen at ", place.master_host, ":", place.master_port,
              " (MASTER_ADDR:MASTER_PORT): the port is in use on host ", host_name(),
              ", by another program or run, or by another process with RANK=0; choose another "
              "MASTER_PORT on all ranks");
  }
}

/// Rank 0's part: waits for all, refuses what does not fit.
class Host {
 public:
  Host(const LaunchPlace& place, Socket listener)
      : place_(place), listener_(std::move(listener)), deadline_(after(place.limit_s)) {}

  /// Members and controls of the ranks from 1 on.
  void gather(std::vector<Member>& members, Controls& controls) {
    try {
      while (n_here_ < place_.size) step(members, controls);
    } catch (const Error& e) {
      tell(fault_of(e), controls);
      throw;
    }
  }
  /// Tells all ranks that are there, and those that come in the next seconds.
  void tell(const std::string& fault, Controls& controls) {
    std::erase(arrivals_, nullptr);  // those greeted before the one that was at fault
    for (auto& talk : controls)
      if (talk) talk->send_fault(fault);
    for (auto& talk : arrivals_) talk->send_fault(fault);
    int n_told = n_here_ + static_cast<int>(arrivals_.size());
    const auto end = after(kLinger_s);
    while (n_told < place_.size && milliseconds_until(end) > 0) {
      pollfd wait{listener_.fd(), POLLIN, 0};
      ::poll(&wait, 1, milliseconds_until(end));
      if (Socket socket = accept_from(listener_.fd())) {
        arrivals_.push_back(std::make_unique<Talk>(std::move(socket)));
        arrivals_.back()->send_fault(fault);
        ++n_told;
      }
    }
    // To close at once could take the message away from who has not read it yet.
    for (auto& talk : arrivals_) talk->wait(after(0.2));
  }

 private:
  void step(std::vector<Member>& members, Controls& controls) {
    if (milliseconds_until(deadline_) == 0) absent(members);
    std::vector<pollfd> polls{{listener_.fd(), POLLIN, 0}};
    for (const auto& talk : arrivals_) polls.push_back({talk->fd(), POLLIN, 0});
    for (const auto& talk : controls)
      if (talk) polls.push_back({talk->fd(), POLLIN, 0});
    ::poll(polls.data(), polls.size(), std::min(1000, milliseconds_until(deadline_)));
    while (Socket socket = accept_from(listener_.fd()))
      arrivals_.push_back(std::make_unique<Talk>(std::move(socket)));
    for (size_t r = 1; r < controls.size(); ++r)
      if (controls[r] && controls[r]->read() != Talk::State::more)
        BORA_FAIL("rank ", r, " on host ", members[r].host, " has left during the start");
    for (auto& talk : arrivals_) {
      switch (talk->read()) {
        case Talk::State::more:
          if (talk->since() + std::chrono::duration<double>(kSilence_s) < Clock::now())
            turn_away(talk, "says nothing");
          break;
        case Talk::State::closed:
          turn_away(talk, "left without a word");
          break;
        case Talk::State::stranger:
          turn_away(talk, "does not speak Bora's language");
          break;
        case Talk::State::other_version:
          BORA_FAIL("a process at ", talk->from(),
                    " was built from another version of Bora; all ranks must run the same");
        case Talk::State::whole:
          greet(talk, members, controls);
      }
    }
    std::erase(arrivals_, nullptr);
  }

  void turn_away(std::unique_ptr<Talk>& talk, const char* why) {
    log_warn("at the meeting point ", place_.master_host, ":", place_.master_port, " somebody (",
             talk->from(), ") ", why, "; turned away");
    talk.reset();
  }

  void greet(std::unique_ptr<Talk>& talk, std::vector<Member>& members, Controls& controls) {
    const Message hello = talk->take();
    const std::vector<std::string> fields = split_fields(hello.text, '\n');
    if (hello.kind != Kind::hello || fields.size() != 4)
      return turn_away(talk, "does not say who it is");
    if (fields[2] != place_.token) {
      talk->send_fault("uanother run has its meeting point here; choose another MASTER_PORT");
      return turn_away(talk, "belongs to another run");
    }
    const int rank = number(fields[0]), size = number(fields[1]);
    const Member member = member_of(fields[3]);
    const std::string who = detail::join("rank ", rank, " on host ", member.host);
    if (size != place_.size)
      throw UsageError(detail::join("WORLD_SIZE differs: ", who, " was told ", size,
                                    " ranks, rank 0 on host ", members[0].host, " ", place_.size));
    if (rank < 0 || rank >= place_.size)
      throw UsageError(detail::join(who, " is not one of 0..", place_.size - 1));
    const auto i = static_cast<size_t>(rank);
    if (rank == 0 || controls[i])
      throw UsageError(detail::join("two processes were told RANK=", rank, ": one on host ",
                                    members[i].host, ", one on host ", member.host));
    members[i] = member;
    controls[i] = std::move(talk);
    ++n_here_;
  }

  [[noreturn]] void absent(const std::vector<Member>& members) const {
    std::string ranks;
    for (size_t r = 1; r < members.size(); ++r)
      if (members[r].host.empty()) ranks += detail::join(ranks.empty() ? "" : ", ", r);
    BORA_FAIL("the start: time is over after ", place_.limit_s, " s (BORA_START_TIMEOUT_S): of ",
              place_.size, " ranks, not heard of at ", place_.master_host, ":", place_.master_port,
              ": rank(s) ", ranks);
  }

  const LaunchPlace& place_;
  Socket listener_;
  Clock::time_point deadline_;
  std::vector<std::unique_ptr<Talk>> arrivals_;
  int n_here_ = 1;
};

}  // namespace

std::vector<Peer> meet_as_host(const LaunchPlace& place) {
  std::vector<Member> members(static_cast<size_t>(place.size));
  Controls controls(members.size());
  Host host(place, listen_at_master(place));
  Socket listener;
  try {
    members[0] = describe_self(place, listener, nullptr);
  } catch (const Error& e) {
    host.tell(fault_of(e), controls);
    throw;
  }
  host.gather(members, controls);
  const std::string nonce = random_word();
  std::string table = nonce;
  for (const Member& m : members) table += '\n' + text_of(m);
  try {
    for (size_t r = 1; r < controls.size(); ++r) {
      std::string why;
      BORA_CHECK(controls[r]->send(Kind::table, table, after(place.limit_s), &why), "rank ", r,
                 " on host ", members[r].host, " has left during the start: ", why);
    }
    return connect_all(place, members, std::move(listener), controls, nonce);
  } catch (const Error& e) {
    host.tell(fault_of(e), controls);
    throw;
  }
}

}  // namespace bora::tcp
