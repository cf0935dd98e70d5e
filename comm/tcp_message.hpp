// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: what ranks tell each other while they get to know each other.
#pragma once

#include "comm/tcp_socket.hpp"

#include <string>
#include <vector>

namespace bora::tcp {

enum class Kind : uint32_t {
  hello = 1,  ///< to rank 0: who and where I am
  table,      ///< from rank 0: who and where all are
  fault,      ///< either way: why this start has failed
  link,       ///< first on a connection between two ranks: who speaks
  ready,      ///< to rank 0: all my connections are there
  go          ///< from rank 0: everybody's are
};

struct Message {
  Kind kind = Kind::fault;
  std::string text;  // fields, one a line
};

/// A connection on which messages arrive piece by piece.
class Talk {
 public:
  explicit Talk(Socket socket);
  enum class State { more, whole, stranger, other_version, closed };
  /// Reads what has come, without waiting and never beyond a message's end.  From `whole` on until
  /// take() there is a message; `stranger`: not from a Bora.
  State read();
  Message take();
  /// The same, waiting until the deadline (then it is `more`).
  State wait(Clock::time_point deadline);

  bool send(Kind kind, const std::string& text, Clock::time_point deadline, std::string* why);
  /// Sends a fault and shuts this direction down; errors do not matter any more.
  void send_fault(const std::string& text);

  int fd() const { return socket_.fd(); }
  Socket release() { return std::move(socket_); }
  const std::string& from() const { return from_; }
  Clock::time_point since() const { return since_; }

 private:
  Socket socket_;
  std::string from_;  // the other side's address
  Clock::time_point since_;
  std::string got_;  // head and text so far
};

std::vector<std::string> split_fields(const std::string& text, char separator);

}  // namespace bora::tcp
