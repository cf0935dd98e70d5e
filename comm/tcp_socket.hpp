// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: sockets and addresses, with a limit to every wait.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bora::tcp {

using Clock = std::chrono::steady_clock;

Clock::time_point after(double seconds);
/// Milliseconds from now for poll(), rounded up, never negative.
int milliseconds_until(Clock::time_point deadline);

/// A socket, closed at the end.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  explicit operator bool() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  void close();

 private:
  int fd_ = -1;
};

/// An address and a port.
struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  int port() const;
  Endpoint with_port(int port) const;
  bool is_loopback() const;
  /// "10.0.0.3:29500", "[fe80::1]:29500"
  std::string text() const;
};

/// All addresses of a host, by name or in figures.  Error that names it if there is none.
std::vector<Endpoint> resolve(const std::string& host, int port);
/// Whether `host` is an address in figures.
bool is_numeric(const std::string& host);
/// Endpoint::text() back.  Error if it is none.
Endpoint parse_endpoint(const std::string& text);
Endpoint local_end(int fd);
Endpoint remote_end(int fd);

/// This host's addresses (port 0) on the network `interface`, given by its name or one of this
/// host's addresses; if empty, on all networks that are up but loopback.  UsageError that names
/// what there is if it is unknown.
std::vector<Endpoint> own_addresses(const std::string& interface);

/// A socket that listens, non-blocking.  Error with the system's text; the errno in `code` if
/// given.
Socket listen_at(const Endpoint& at, int* code = nullptr);
/// The same at all addresses of this host.
Socket listen_anywhere(int port, int* code = nullptr);
/// Next connection of a listener, ready for use, or none.
Socket accept_from(int listener);

/// Connects to the first of `to` that answers before the deadline; each gets its share of the time.
/// `from`: this side's address, if any.  Empty, with the reason in `why`, if none does.
Socket connect_to(const std::vector<Endpoint>& to, Clock::time_point deadline, const Endpoint* from,
                  std::string* why);

/// Sends or receives all of it before the deadline; else false with the reason in `why`.
bool send_all(int fd, const void* data, size_t bytes, Clock::time_point deadline, std::string* why);
bool receive_all(int fd, void* data, size_t bytes, Clock::time_point deadline, std::string* why);

/// This machine and its shared memory, as one word: equal for ranks that can share memory.
std::string host_identity();

}  // namespace bora::tcp
