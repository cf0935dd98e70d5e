// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp_message.hpp"

#include "core/error.hpp"

#include <poll.h>

#include <cerrno>
#include <cstring>

namespace bora::tcp {
namespace {

struct Head {
  char magic[8];
  uint32_t kind;
  uint32_t bytes;
};

// The last letter is the version of all that is said between ranks, frames included.
constexpr char kMagic[] = "BoraTcp1";
// A table of 100,000 ranks has less.
constexpr uint32_t kLongest = 1u << 26;

}  // namespace

Talk::Talk(Socket socket)
    : socket_(std::move(socket)), from_(remote_end(socket_.fd()).text()), since_(Clock::now()) {}

Talk::State Talk::read() {
  for (;;) {
    size_t wanted = sizeof(Head);
    if (got_.size() >= sizeof(Head)) {
      Head head;
      std::memcpy(&head, got_.data(), sizeof(head));
      if (std::memcmp(head.magic, kMagic, 7) != 0 || head.bytes > kLongest) return State::stranger;
      if (head.magic[7] != kMagic[7]) return State::other_version;
      wanted += head.bytes;
      if (got_.size() == wanted) return State::whole;
    } else if (std::memcmp(got_.data(), kMagic, std::min<size_t>(got_.size(), 7)) != 0) {
      return State::stranger;
    }
    char part[4096];
    const ssize_t n = ::recv(socket_.fd(), part, std::min(sizeof(part), wanted - got_.size()), 0);
    if (n > 0) {
      got_.append(part, static_cast<size_t>(n));
    } else if (n == 0) {
      return State::closed;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return State::more;
    } else if (errno != EINTR) {
      return State::closed;
    }
  }
}

Talk::State Talk::wait(Clock::time_point deadline) {
  for (;;) {
    const State state = read();
    const int left = milliseconds_until(deadline);
    if (state != State::more || left == 0) return state;
    pollfd wait{socket_.fd(), POLLIN, 0};
    ::poll(&wait, 1, left);
  }
}

Message Talk::take() {
  Head head;
  std::memcpy(&head, got_.data(), sizeof(head));
  Message message{static_cast<Kind>(head.kind), got_.substr(sizeof(head))};
  got_.clear();
  return message;
}

bool Talk::send(Kind kind, const std::string& text, Clock::time_point deadline, std::string* why) {
  Head head{};
  std::memcpy(head.magic, kMagic, sizeof(head.magic));
  head.kind = static_cast<uint32_t>(kind);
  head.bytes = static_cast<uint32_t>(text.size());
  std::string all(reinterpret_cast<const char*>(&head), sizeof(head));
  all += text;
  return send_all(socket_.fd(), all.data(), all.size(), deadline, why);
}

void Talk::send_fault(const std::string& text) {
  std::string ignored;
  send(Kind::fault, text, after(0.5), &ignored);
  ::shutdown(socket_.fd(), SHUT_WR);
}

std::vector<std::string> split_fields(const std::string& text, char separator) {
  std::vector<std::string> fields;
  size_t begin = 0;
  for (;;) {
    const size_t end = text.find(separator, begin);
    fields.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return fields;
    begin = end + 1;
  }
}

}  // namespace bora::tcp
