// SPDX-License-Identifier: Apache-2.0
// After the meeting: a connection between each two ranks.
#include "comm/tcp_rendezvous.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

#include <poll.h>

#include <algorithm>
#include <charconv>

namespace bora::tcp {
namespace {

/// One rank's part.  The higher rank of a pair connects, so nobody waits in a circle: a connection
/// is there as soon as the other side listens.
class Connecting {
 public:
  Connecting(const LaunchPlace& place, const std::vector<Member>& members, Socket listener,
             Controls& controls, const std::string& nonce)
      : place_(place),
        members_(members),
        listener_(std::move(listener)),
        controls_(controls),
        nonce_(nonce),
        deadline_(after(place.limit_s)),
        peers_(members.size()),
        ready_(members.size()) {
    for (size_t r = 0; r < members.size(); ++r)
      peers_[r] = {Socket(), members[r].host, members[r].identity};
  }

  std::vector<Peer> run() {
    for (int r = 0; r < place_.rank; ++r) connect(static_cast<size_t>(r));
    while (!all_connected()) step();
    std::string why;
    if (place_.rank != 0) {
      BORA_CHECK(controls_[0]->send(Kind::ready, "", deadline_, &why), lost(0), why);
      while (!go_) step();
      return std::move(peers_);
    }
    while (std::count(ready_.begin() + 1, ready_.end(), true) < place_.size - 1) step();
    for (size_t r = 1; r < controls_.size(); ++r)
      BORA_CHECK(controls_[r]->send(Kind::go, "", deadline_, &why), lost(r), why);
    return std::move(peers_);
  }

 private:
  bool all_connected() const {
    for (size_t r = 0; r < peers_.size(); ++r)
      if (static_cast<int>(r) != place_.rank && !peers_[r].socket) return false;
    return true;
  }
  std::string lost(size_t rank) const {
    return detail::join("rank ", rank, " on host ", members_[rank].host,
                        " has left during the start: ");
  }

  // Loopback leads to this machine alone.
  std::vector<Endpoint> ways_to(const Member& other) const {
    const bool near = other.identity == members_[static_cast<size_t>(place_.rank)].identity;
    std::vector<Endpoint> ways;
    for (const Endpoint& e : other.ends)
      if (near || !e.is_loopback()) ways.push_back(e);
    return ways.empty() ? other.ends : ways;
  }

  void connect(size_t rank) {
    std::optional<Endpoint> from;
    if (!place_.interface.empty()) from = own_addresses(place_.interface).front();
    std::string why;
    Socket socket = connect_to(ways_to(members_[rank]), deadline_, from ? &*from : nullptr, &why);
    Talk talk(socket ? std::move(socket) : Socket());
    const bool linked =
        talk.fd() >= 0 &&
        talk.send(Kind::link, detail::join(place_.rank, '\n', nonce_), deadline_, &why);
    BORA_CHECK(linked, "rank ", place_.rank, " on host ",
               members_[static_cast<size_t>(place_.rank)].host, ": no connection to rank ", rank,
               " on host ", members_[rank].host, ": ", why,
               " (BORA_INTERFACE chooses the network between ranks)");
    peers_[rank].socket = talk.release();
  }

  void step() {
    if (milliseconds_until(deadline_) == 0) late();
    std::vector<pollfd> polls{{listener_.fd(), POLLIN, 0}};
    for (const auto& talk : arrivals_) polls.push_back({talk->fd(), POLLIN, 0});
    for (const auto& talk : controls_)
      if (talk) polls.push_back({talk->fd(), POLLIN, 0});
    ::poll(polls.data(), polls.size(), std::min(1000, milliseconds_until(deadline_)));
    while (Socket socket = accept_from(listener_.fd()))
      arrivals_.push_back(std::make_unique<Talk>(std::move(socket)));
    for (size_t i = 0; i < controls_.size(); ++i)
      if (controls_[i]) listen_to(*controls_[i], i);
    for (auto& talk : arrivals_) {
      const Talk::State state = talk->read();
      if (state == Talk::State::more) continue;
      if (state != Talk::State::whole || !welcome(*talk))
        log_warn("a stranger (", talk->from(), ") at the door of rank ", place_.rank,
                 "; turned away");
      talk.reset();
    }
    std::erase(arrivals_, nullptr);
  }

  // `from` is the rank, or 0.
  void listen_to(Talk& control, size_t from) {
    const Talk::State state = control.read();
    if (state == Talk::State::more) return;
    // A rank that has heard "go" needs its talk with rank 0 no more.
    BORA_CHECK(state == Talk::State::whole, lost(from), "the connection is closed");
    const Message message = control.take();
    if (message.kind == Kind::fault) throw_fault(message.text);
    if (message.kind == Kind::ready) ready_[from] = true;
    if (message.kind == Kind::go) go_ = true;
  }

  bool welcome(Talk& talk) {
    const Message message = talk.take();
    const std::vector<std::string> fields = split_fields(message.text, '\n');
    if (message.kind != Kind::link || fields.size() != 2 || fields[1] != nonce_) return false;
    int rank = -1;
    std::from_chars(fields[0].data(), fields[0].data() + fields[0].size(), rank);
    if (rank <= place_.rank || rank >= place_.size) return false;
    peers_[static_cast<size_t>(rank)].socket = talk.release();
    return true;
  }

  [[noreturn]] void late() const {
    std::string ranks;
    for (size_t r = 0; r < peers_.size(); ++r) {
      const bool missing = static_cast<int>(r) != place_.rank &&
                           (!peers_[r].socket || (place_.rank == 0 && !ready_[r]));
      if (missing) ranks += detail::join(ranks.empty() ? "" : ", ", r);
    }
    BORA_FAIL("the start: time is over on rank ", place_.rank, " after ", place_.limit_s,
              " s (BORA_START_TIMEOUT): not connected with rank(s) ", ranks.empty() ? "0" : ranks);
  }

  const LaunchPlace& place_;
  const std::vector<Member>& members_;
  Socket listener_;
  Controls& controls_;
  std::string nonce_;
  Clock::time_point deadline_;
  std::vector<Peer> peers_;
  std::vector<bool> ready_;
  std::vector<std::unique_ptr<Talk>> arrivals_;
  bool go_ = false;
};

}  // namespace

std::vector<Peer> connect_all(const LaunchPlace& place, const std::vector<Member>& members,
                              Socket listener, Controls& controls, const std::string& nonce) {
  return Connecting(place, members, std::move(listener), controls, nonce).run();
}

}  // namespace bora::tcp
