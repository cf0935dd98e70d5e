// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp_socket.hpp"

#include "core/error.hpp"
#include "core/host.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace bora::tcp {
namespace {

constexpr int kBacklog = 4096;  // all ranks may come at once; the system has its own limit

void set(int fd, int level, int name, int value) {
  ::setsockopt(fd, level, name, &value, sizeof(value));
}

// Data leaves at once, and a host that has vanished is noticed: after a silence of 10 s it is asked
// up to 4 times, 5 s apart.
void tune(int fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

int new_socket(int family) {
  return ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

Socket listen_with(const Endpoint& at, bool both_families, int* code) {
  Socket socket(new_socket(at.address.ss_family));
  // Connections of an earlier run that wait for their end do not count.
  if (socket) set(socket.fd(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (socket && both_families) set(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (!socket || ::bind(socket.fd(), at.get(), at.length) != 0 ||
      ::listen(socket.fd(), kBacklog) != 0) {
    const int error = errno;
    if (code != nullptr) *code = error;
    BORA_FAIL("listening at ", at.text(), ": ", std::strerror(error));
  }
  return socket;
}

Endpoint any_address(int family, int port) {
  Endpoint any;
  any.address.ss_family = static_cast<sa_family_t>(family);  // the rest is zero: any
  any.length = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  return any.with_port(port);
}

// 0, or the errno.
int connect_one(int fd, const Endpoint& to, Clock::time_point deadline) {
  if (::connect(fd, to.get(), to.length) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  pollfd wait{fd, POLLOUT, 0};
  int ready = 0;
  do {
    ready = ::poll(&wait, 1, milliseconds_until(deadline));
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof(error);
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

bool is_to_itself(int fd) { return local_end(fd).text() == remote_end(fd).text(); }

}  // namespace

Clock::time_point after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, INT32_MAX));
}

void Socket::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Socket listen_at(const Endpoint& at, int* code) { return listen_with(at, false, code); }

Socket listen_anywhere(int port, int* code) {
  int first_code = 0;
  try {
    return listen_with(any_address(AF_INET6, port), true, &first_code);
  } catch (const Error&) {
    if (first_code == EADDRINUSE) {
      if (code != nullptr) *code = first_code;
      throw;
    }
  }
  return listen_with(any_address(AF_INET, port), false, code);  // a host without IPv6
}

Socket accept_from(int listener) {
  Socket socket(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket) tune(socket.fd());
  return socket;
}

Socket connect_to(const std::vector<Endpoint>& to, Clock::time_point deadline, const Endpoint* from,
                  std::string* why) {
  for (size_t i = 0; i < to.size(); ++i) {
    // An address that swallows everything must not use up the others' time.
    const auto share = (deadline - Clock::now()) / static_cast<int64_t>(to.size() - i);
    Socket socket(new_socket(to[i].address.ss_family));
    int error = socket ? 0 : errno;
    if (error == 0 && from != nullptr && from->address.ss_family == to[i].address.ss_family &&
        ::bind(socket.fd(), from->get(), from->length) != 0)
      error = errno;
    if (error == 0) error = connect_one(socket.fd(), to[i], Clock::now() + share);
    // Without a listener, Linux may connect a local port to itself.
    if (error == 0 && is_to_itself(socket.fd())) error = ECONNREFUSED;
    if (error == 0) {
      tune(socket.fd());
      return socket;
    }
    *why = detail::join(to[i].text(), ": ", std::strerror(error));
  }
  return {};
}

namespace {

// `move` sends or receives a part: its bytes, 0 for the end, or -1 with errno.
template <class Move>
bool move_all(int fd, short event, size_t bytes, Clock::time_point deadline, std::string* why,
              Move&& move) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = move(done);
    if (n > 0) {
      done += static_cast<size_t>(n);
      continue;
    }
    if (n == 0) {
      *why = "the other side has closed the connection";
      return false;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) {
      *why = std::strerror(errno);
      return false;
    }
    const int left = milliseconds_until(deadline);
    if (left == 0) {
      *why = "time is over";
      return false;
    }
    pollfd wait{fd, event, 0};
    ::poll(&wait, 1, left);
  }
  return true;
}

}  // namespace

bool send_all(int fd, const void* data, size_t bytes, Clock::time_point deadline,
              std::string* why) {
  return move_all(fd, POLLOUT, bytes, deadline, why, [&](size_t done) {
    return ::send(fd, static_cast<const char*>(data) + done, bytes - done, MSG_NOSIGNAL);
  });
}

bool receive_all(int fd, void* data, size_t bytes, Clock::time_point deadline, std::string* why) {
  return move_all(fd, POLLIN, bytes, deadline, why, [&](size_t done) {
    return ::recv(fd, static_cast<char*>(data) + done, bytes - done, 0);
  });
}

// Containers of one machine have its boot id, but may have shared memory of their own; network
// namespaces that are to be hosts have a name of their own.
std::string host_identity() {
  struct stat memory {};
  const bool have = ::stat("/dev/shm", &memory) == 0;
  return detail::join(host_name(), "/", boot_id(), "/", have ? memory.st_dev : 0);
}

}  // namespace bora::tcp
