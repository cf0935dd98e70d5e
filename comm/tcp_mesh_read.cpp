// SPDX-License-Identifier: Apache-2.0
// What comes in: frames, and where their data goes.
#include "comm/tcp_mesh.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace bora::tcp {
namespace {

// So much at once from one connection; then the others have their turn.
constexpr size_t kShare = size_t{4} << 20;

}  // namespace

void Mesh::read_some(int rank) {
  Link& from = link(rank);
  for (size_t got = 0; from.state == State::open && got < kShare;) {
    // Much of a message goes to its place directly; frames and small ones through the buffer.
    const bool direct = from.begin == from.end && from.left >= kBuffer && from.room > 0;
    if (from.begin == from.end) from.begin = from.end = 0;
    if (!direct && from.begin > 0) {
      std::memmove(from.buffer.data(), from.buffer.data() + from.begin, from.end - from.begin);
      from.end -= from.begin;
      from.begin = 0;
    }
    const ssize_t n =
        direct ? ::recv(from.socket.fd(), from.to, std::min(from.left, from.room), 0)
               : ::recv(from.socket.fd(), from.buffer.data() + from.end, kBuffer - from.end, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n <= 0)
      return has_ended(rank, n == 0 ? "closed without a goodbye: it was killed, or has crashed"
                                    : std::strerror(errno));
    got += static_cast<size_t>(n);
    if (direct) {
      take_in(from, nullptr, static_cast<size_t>(n));
      if (from.left == 0) end_frame(rank);
    } else {
      from.end += static_cast<size_t>(n);
      parse(rank);
    }
  }
}

// `data` null: it is there already.
void Mesh::take_in(Link& from, const char* data, size_t bytes) {
  const size_t kept = std::min<size_t>(bytes, from.room);
  if (data != nullptr && kept > 0) std::memcpy(from.to, data, kept);
  if (kept > 0) from.to += kept;
  from.room -= kept;
  from.left -= bytes;
}

void Mesh::parse(int rank) {
  Link& from = link(rank);
  while (from.state == State::open) {
    const size_t there = from.end - from.begin;
    if (from.left > 0) {
      const size_t n = std::min<size_t>(there, from.left);
      if (n == 0) return;
      take_in(from, from.buffer.data() + from.begin, n);
      from.begin += n;
      if (from.left == 0) end_frame(rank);
    } else {
      if (there < sizeof(Frame)) return;
      std::memcpy(&from.frame, from.buffer.data() + from.begin, sizeof(Frame));
      from.begin += sizeof(Frame);
      begin_frame(rank);
    }
  }
}

void Mesh::begin_frame(int rank) {
  Link& from = link(rank);
  const Frame& frame = from.frame;
  from.parcel = nullptr;
  from.early = nullptr;
  from.to = nullptr;
  from.left = from.room = 0;
  const auto posted = [&]() -> Parcel* {
    const auto at = std::find_if(from.posted.begin(), from.posted.end(), [&](const Parcel* p) {
      return p->group == frame.group && p->tag == frame.tag;
    });
    if (at == from.posted.end()) return nullptr;
    Parcel* parcel = *at;
    from.posted.erase(at);
    return parcel;
  };
  const auto into = [&](Parcel* parcel) {
    from.parcel = parcel;
    from.to = parcel->data + parcel->moved;
    from.room = std::min(static_cast<uint64_t>(std::max<int64_t>(parcel->bytes - parcel->moved, 0)),
                         frame.bytes);
  };
  switch (frame.kind) {
    case Frame::eager:
      if (frame.bytes > static_cast<uint64_t>(Frame::kLargestEager))
        return has_ended(rank, detail::join("it sends nonsense (", frame.bytes, " bytes unasked)"));
      from.left = frame.bytes;
      if (Parcel* parcel = posted()) {
        parcel->message = static_cast<int64_t>(frame.bytes);
        into(parcel);
      } else {
        from.early = from.earlies.emplace_back(std::make_unique<Early>()).get();
        from.early->frame = frame;
        from.early->data.resize(frame.bytes);
        from.to = from.early->data.data();
        from.room = frame.bytes;
      }
      break;
    case Frame::offer:
      if (Parcel* parcel = posted()) {
        accept_offer(from, frame, parcel);
      } else {
        from.earlies.emplace_back(std::make_unique<Early>())->frame = frame;
      }
      break;
    case Frame::accept: {
      const auto at = offered_.find(frame.id);
      if (at == offered_.end() || at->second->peer != rank)
        return has_ended(rank, "it accepts what nobody has offered");
      Parcel* parcel = at->second;
      offered_.erase(at);
      parcel->id = frame.answer;
      from.bulk.push_back(parcel);
      break;
    }
    case Frame::data: {
      const auto at = accepted_.find(frame.id);
      if (at == accepted_.end() || at->second->peer != rank)
        return has_ended(rank, "it sends what nobody has accepted");
      from.left = frame.bytes;
      into(at->second);
      break;
    }
    case Frame::goodbye:
      return has_finished(rank);
    case Frame::abort:
      if (!leaving_)
        log_warn("rank ", rank, " on host ", from.host, " has ended the run with code ", frame.id);
      std::_Exit(static_cast<int>(frame.id));
    default:
      return has_ended(rank, detail::join("it sends nonsense (frame of kind ", frame.kind, ")"));
  }
  if (from.left == 0) end_frame(rank);
}

void Mesh::end_frame(int rank) {
  Link& from = link(rank);
  if (from.frame.kind == Frame::data) {
    Parcel* parcel = from.parcel;
    parcel->moved += static_cast<int64_t>(from.frame.bytes);
    if (parcel->moved < parcel->message) return;
    accepted_.erase(parcel->id);
    parcel->done.store(true, std::memory_order_release);
  } else if (from.frame.kind == Frame::eager && from.parcel != nullptr) {
    from.parcel->done.store(true, std::memory_order_release);
  } else if (from.early != nullptr) {
    Early* early = from.early;
    early->complete = true;
    Parcel* taker = early->taker;
    if (taker == nullptr) return;
    taker->message = static_cast<int64_t>(early->data.size());
    if (taker->message > 0)
      std::memcpy(taker->data, early->data.data(),
                  static_cast<size_t>(std::min(taker->message, taker->bytes)));
    std::erase_if(from.earlies, [&](const auto& e) { return e.get() == early; });
    taker->done.store(true, std::memory_order_release);
  }
}

void Mesh::accept_offer(Link& from, const Frame& offer, Parcel* parcel) {
  const int rank = static_cast<int>(&from - links_.data());
  parcel->message = static_cast<int64_t>(offer.bytes);
  parcel->id = next_id_++;
  accepted_[parcel->id] = parcel;
  Frame frame;
  frame.kind = Frame::accept;
  frame.id = offer.id;
  frame.answer = parcel->id;
  put(rank, {frame, nullptr, nullptr});
}

}  // namespace bora::tcp
