// SPDX-License-Identifier: Apache-2.0
// Addresses: names, figures, and what this host has.
#include "comm/tcp_socket.hpp"
#include "core/error.hpp"
#include "core/host.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>

namespace bora::tcp {
namespace {

std::vector<Endpoint> look_up(const std::string& host, int port, int flags, int* error) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  *error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  std::vector<Endpoint> found;
  if (*error != 0) return found;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, ::freeaddrinfo);
  for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
    Endpoint& e = found.emplace_back();
    std::memcpy(&e.address, a->ai_addr, a->ai_addrlen);
    e.length = a->ai_addrlen;
  }
  return found;
}

std::string figures(const Endpoint& e) {
  char host[NI_MAXHOST] = {};
  if (::getnameinfo(e.get(), e.length, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0)
    return "?";
  return host;
}

Endpoint end_of(int fd, int (*name)(int, sockaddr*, socklen_t*)) {
  Endpoint e;
  e.length = sizeof(e.address);
  if (name(fd, reinterpret_cast<sockaddr*>(&e.address), &e.length) != 0) return {};
  // An IPv4 connection of a socket for both families: as what it is.
  const auto* six = reinterpret_cast<const sockaddr_in6*>(&e.address);
  if (e.address.ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) return e;
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = six->sin6_port;
  std::memcpy(&four.sin_addr, &six->sin6_addr.s6_addr[12], 4);
  Endpoint out;
  std::memcpy(&out.address, &four, sizeof(four));
  out.length = sizeof(four);
  return out;
}

}  // namespace

int Endpoint::port() const {
  if (address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

Endpoint Endpoint::with_port(int port) const {
  Endpoint e = *this;
  const auto number = htons(static_cast<uint16_t>(port));
  if (address.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&e.address)->sin6_port = number;
  } else {
    reinterpret_cast<sockaddr_in*>(&e.address)->sin_port = number;
  }
  return e;
}

bool Endpoint::is_loopback() const {
  if (address.ss_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr);
  return ntohl(reinterpret_cast<const sockaddr_in*>(&address)->sin_addr.s_addr) >> 24 == 127;
}

std::string Endpoint::text() const {
  const bool six = address.ss_family == AF_INET6;
  return detail::join(six ? "[" : "", figures(*this), six ? "]:" : ":", port());
}

std::vector<Endpoint> resolve(const std::string& host, int port) {
  int error = 0;
  std::vector<Endpoint> found = look_up(host, port, 0, &error);
  if (found.empty())
    throw Error(detail::join("no address of host '", host, "': ", ::gai_strerror(error)));
  return found;
}

bool is_numeric(const std::string& host) {
  int error = 0;
  return !look_up(host, 0, AI_NUMERICHOST, &error).empty();
}

Endpoint parse_endpoint(const std::string& text) {
  const size_t colon = text.rfind(':');
  BORA_CHECK(colon != std::string::npos && colon > 0 && colon + 1 < text.size(), "'", text,
             "' is not <address>:<port>");
  std::string host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  int port = 0, error = 0;
  for (const char c : text.substr(colon + 1)) {
    BORA_CHECK(c >= '0' && c <= '9' && port <= 6553, "'", text, "' is not <address>:<port>");
    port = 10 * port + (c - '0');
  }
  const std::vector<Endpoint> found = look_up(host, port, AI_NUMERICHOST, &error);
  BORA_CHECK(!found.empty() && port <= 65535, "'", text, "' is not <address>:<port>");
  return found.front();
}

Endpoint local_end(int fd) { return end_of(fd, ::getsockname); }
Endpoint remote_end(int fd) { return end_of(fd, ::getpeername); }

std::vector<Endpoint> own_addresses(const std::string& interface) {
  ifaddrs* list = nullptr;
  BORA_CHECK(::getifaddrs(&list) == 0, "the networks of this host: ", std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::vector<Endpoint> found;
  std::string all;
  for (const ifaddrs* a = list; a != nullptr; a = a->ifa_next) {
    if (a->ifa_addr == nullptr || (a->ifa_flags & IFF_UP) == 0) continue;
    const int family = a->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Endpoint e;
    e.length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&e.address, a->ifa_addr, e.length);
    // Addresses of one link only need its name to be reached; there are others.
    const auto* six = reinterpret_cast<const sockaddr_in6*>(&e.address);
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr)) continue;
    all += detail::join(all.empty() ? "" : ", ", a->ifa_name, " (", figures(e), ")");
    const bool wanted =
        interface.empty() ? !e.is_loopback() : interface == a->ifa_name || interface == figures(e);
    if (wanted) found.push_back(e);
  }
  if (!interface.empty() && found.empty())
    throw UsageError(detail::join("BORA_INTERFACE='", interface, "' is neither a network of host ",
                                  host_name(), " nor an address of it; there are ", all));
  return found;
}

}  // namespace bora::tcp
