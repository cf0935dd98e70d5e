// SPDX-License-Identifier: Apache-2.0
// What goes out: small frames first, then parts of large messages in turn.
#include "comm/tcp_mesh.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace bora::tcp {
namespace {

// Of one message at once: small frames wait for no more than this.
constexpr int64_t kChunk = int64_t{1} << 20;
// So much at once to one connection; then the others have their turn.
constexpr size_t kShare = size_t{4} << 20;

}  // namespace

void Mesh::put(int rank, Out out) {
  Link& to = link(rank);
  to.urgent.push_back(out);
  if (!to.blocked) write_some(rank);
}

// The next frame to write, as current; false if there is none.
bool Mesh::next_out(Link& to) {
  if (!to.urgent.empty()) {
    to.current = to.urgent.front();
    to.urgent.pop_front();
  } else if (!to.bulk.empty()) {
    Parcel* parcel = to.bulk.front();
    to.bulk.pop_front();
    Frame frame;
    frame.kind = Frame::data;
    frame.id = parcel->id;
    frame.bytes = static_cast<uint64_t>(std::min(kChunk, parcel->bytes - parcel->moved));
    to.current = {frame, parcel->data + parcel->moved, parcel};
  } else {
    return false;
  }
  to.writing = true;
  to.written = 0;
  return true;
}

void Mesh::write_some(int rank) {
  Link& to = link(rank);
  to.blocked = false;
  for (size_t sent = 0; to.state != State::lost && to.write_error.empty() && sent < kShare;) {
    if (!to.writing && !next_out(to)) return;
    const Frame& frame = to.current.frame;
    const size_t data = to.current.data != nullptr ? frame.bytes : 0;
    const size_t head = std::min(to.written, sizeof(Frame)), body = to.written - head;
    iovec parts[2] = {
        {const_cast<char*>(reinterpret_cast<const char*>(&frame)) + head, sizeof(Frame) - head},
        {const_cast<char*>(to.current.data) + body, data - body}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = data > 0 ? 2 : 1;
    const ssize_t n = ::sendmsg(to.socket.fd(), &message, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      to.blocked = true;
      return;
    }
    if (n < 0) {
      to.write_error = std::strerror(errno);
      return;
    }
    sent += static_cast<size_t>(n);
    to.written += static_cast<size_t>(n);
    if (to.written < sizeof(Frame) + data) continue;
    to.writing = false;
    Parcel* parcel = to.current.parcel;
    if (parcel == nullptr) continue;
    parcel->moved += static_cast<int64_t>(data);
    if (parcel->moved < parcel->bytes) {
      to.bulk.push_back(parcel);  // the others' turn
    } else {
      parcel->done.store(true, std::memory_order_release);
    }
  }
}

bool Mesh::all_written() const {
  return std::all_of(links_.begin(), links_.end(), [](const Link& l) {
    return l.state == State::lost || !l.write_error.empty() ||
           (!l.writing && l.urgent.empty() && l.bulk.empty());
  });
}

}  // namespace bora::tcp
