// SPDX-License-Identifier: Apache-2.0
// What a transport asks of the mesh.  Reading and writing are in tcp_mesh_read.cpp and
// tcp_mesh_write.cpp, ends in tcp_mesh_end.cpp.
#include "comm/tcp_mesh.hpp"

#include "comm/transport.hpp"
#include "core/error.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace bora::tcp {
Mesh::Mesh(int rank, std::vector<Peer> peers) : rank_(rank), links_(peers.size()) {
  for (size_t r = 0; r < peers.size(); ++r) {
    links_[r].socket = std::move(peers[r].socket);
    links_[r].host = peers[r].host;
    links_[r].identity = peers[r].identity;
    if (static_cast<int>(r) != rank) links_[r].buffer.resize(kBuffer);
  }
  if (size() == 1) return;
  wake_ = ::eventfd(0, EFD_CLOEXEC);
  BORA_CHECK(wake_ >= 0, "tcp: eventfd: ", std::strerror(errno));
  watcher_ = std::thread([this] { watch(); });
}

Mesh::~Mesh() {
  if (!watcher_.joinable()) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_, &one, sizeof(one));
  watcher_.join();
  ::close(wake_);
}

std::vector<int> Mesh::lowest_on_host() const {
  std::vector<int> lowest;
  for (const Link& link : links_) {
    const auto first = std::find_if(links_.begin(), links_.end(), [&](const Link& other) {
      return other.identity == link.identity;
    });
    lowest.push_back(static_cast<int>(first - links_.begin()));
  }
  return lowest;
}

Parcel* Mesh::new_parcel(uint64_t group, char* data, int64_t bytes, int peer, int tag) {
  if (free_.empty()) free_.push_back(&pool_.emplace_back());
  Parcel* parcel = free_.back();
  free_.pop_back();
  parcel->done.store(false, std::memory_order_relaxed);
  parcel->peer = peer;
  parcel->tag = tag;
  parcel->group = group;
  parcel->data = data;
  parcel->bytes = bytes;
  parcel->moved = parcel->message = 0;
  parcel->id = 0;
  return parcel;
}

void Mesh::throw_failure() const { throw TransportError(failure_); }

void Mesh::check_open(int peer, const char* what) const {
  if (failed_) throw_failure();
  const Link& other = links_[static_cast<size_t>(peer)];
  if (other.state == State::finished)
    throw TransportError(detail::join("rank ", peer, " on host ", other.host,
                                      " has ended its run already; nothing can be ", what));
}

Parcel* Mesh::send(uint64_t group, const void* data, int64_t bytes, int peer, int tag) {
  const std::lock_guard lock(mutex_);
  if (failed_) throw_failure();
  // Nobody alters it; a parcel has one pointer for both directions.
  auto* const bytes_of = static_cast<char*>(const_cast<void*>(data));
  Parcel* parcel = new_parcel(group, bytes_of, bytes, peer, tag);
  Frame frame;
  frame.tag = tag;
  frame.group = group;
  frame.bytes = static_cast<uint64_t>(bytes);
  if (bytes <= Frame::kLargestEager) {
    frame.kind = Frame::eager;
    if (link(peer).state == State::finished) {
      parcel->done = true;  // as if it had come a little earlier
    } else {
      put(peer, {frame, bytes_of, parcel});
    }
  } else {
    check_open(peer, "sent to it");
    frame.kind = Frame::offer;
    frame.id = parcel->id = next_id_++;
    offered_[frame.id] = parcel;
    put(peer, {frame, nullptr, nullptr});
  }
  return parcel;
}

Parcel* Mesh::receive(uint64_t group, void* data, int64_t bytes, int peer, int tag) {
  const std::lock_guard lock(mutex_);
  if (failed_) throw_failure();
  Link& from = link(peer);
  Parcel* parcel = new_parcel(group, static_cast<char*>(data), bytes, peer, tag);
  const auto early = std::find_if(from.earlies.begin(), from.earlies.end(), [&](const auto& e) {
    return e->frame.group == group && e->frame.tag == tag && e->taker == nullptr;
  });
  if (early == from.earlies.end()) {
    check_open(peer, "received from it");
    from.posted.push_back(parcel);
  } else if ((*early)->frame.kind == Frame::offer) {
    const Frame offer = (*early)->frame;
    from.earlies.erase(early);
    accept_offer(from, offer, parcel);
  } else if (!(*early)->complete) {
    (*early)->taker = parcel;
  } else {
    parcel->message = static_cast<int64_t>((*early)->data.size());
    if (parcel->message > 0)
      std::memcpy(parcel->data, (*early)->data.data(),
                  static_cast<size_t>(std::min(parcel->message, bytes)));
    from.earlies.erase(early);
    parcel->done = true;
  }
  return parcel;
}

bool Mesh::test(Parcel*& parcel, TooLong too_long) {
  if (parcel == nullptr) return true;
  if (!parcel->done.load(std::memory_order_acquire)) return false;
  const std::lock_guard lock(mutex_);
  const int64_t message = parcel->message, room = parcel->bytes;
  const int peer = parcel->peer;
  free_.push_back(parcel);
  parcel = nullptr;
  if (message > room && too_long == TooLong::error)
    throw TransportError(detail::join("a message of ", message, " bytes from rank ", peer,
                                      " for a receive of ", room));
  return true;
}

void Mesh::cancel(Parcel* parcel) {
  const std::lock_guard lock(mutex_);
  std::deque<Parcel*>& posted = link(parcel->peer).posted;
  const auto at = std::find(posted.begin(), posted.end(), parcel);
  if (at == posted.end()) return;  // its message is on its way
  posted.erase(at);
  parcel->done = true;
}

int Mesh::take(uint64_t group, void* data, int64_t bytes, std::span<const int> from, int tag) {
  progress();
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < from.size(); ++i) {
    auto& earlies = link(from[i]).earlies;
    const auto early = std::find_if(earlies.begin(), earlies.end(), [&](const auto& e) {
      return e->frame.group == group && e->frame.tag == tag && e->complete;
    });
    if (early == earlies.end()) continue;
    BORA_CHECK((*early)->data.size() == static_cast<size_t>(bytes), "tcp: a message of ",
               (*early)->data.size(), " bytes with tag ", tag, ", wanted ", bytes);
    std::memcpy(data, (*early)->data.data(), static_cast<size_t>(bytes));
    earlies.erase(early);
    return static_cast<int>(i);
  }
  return -1;
}

void Mesh::progress() {
  {
    // Who finds another thread at it need not do it again.
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return;
    move_all();
  }
  if (failed_) throw_failure();
}

void Mesh::move_all() {
  constexpr size_t kAskAll = 2;  // connections: so few are read without asking which can be
  std::vector<pollfd> polls;
  if (links_.size() > kAskAll + 1) {
    for (const Link& l : links_)
      polls.push_back({l.state == State::open ? l.socket.fd() : -1, POLLIN, 0});
    ::poll(polls.data(), polls.size(), 0);
  }
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    Link& other = link(r);
    const bool broken = !other.write_error.empty();
    if (broken || polls.empty() || polls[static_cast<size_t>(r)].revents != 0) read_some(r);
    // Its last words are read; they explain more.
    if (broken) has_ended(r, other.write_error);
    write_some(r);
  }
}

void Mesh::rest(std::chrono::microseconds time) {
  std::vector<pollfd> polls;
  {
    const std::lock_guard lock(mutex_);
    for (const Link& l : links_)
      if (l.socket && l.state == State::open)
        polls.push_back({l.socket.fd(), static_cast<short>(POLLIN | (l.blocked ? POLLOUT : 0)), 0});
  }
  const timespec left{static_cast<time_t>(time.count() / 1'000'000),
                      static_cast<long>(time.count() % 1'000'000) * 1000};
  ::ppoll(polls.data(), polls.size(), &left, nullptr);
}

}  // namespace bora::tcp
