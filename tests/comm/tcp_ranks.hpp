// SPDX-License-Identifier: Apache-2.0
// For tests: ranks that are threads and share nothing but connections by TCP.
#pragma once

#include "comm/tcp_transport.hpp"

#include <unistd.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace bora::testing {

/// Runs body on n ranks; returns when all have ended.  The body says goodbye to its mesh.
inline void on_tcp_ranks(
    int n, const std::function<void(const std::shared_ptr<TcpTransport>&, tcp::Mesh&)>& body) {
  const tcp::Socket listener = tcp::listen_at(tcp::parse_endpoint("127.0.0.1:0"));
  std::vector<std::thread> ranks;
  for (int r = 0; r < n; ++r) {
    ranks.emplace_back([&, r] {
      LaunchPlace place;
      place.rank = r;
      place.size = n;
      place.master_host = "127.0.0.1";
      place.master_port = tcp::local_end(listener.fd()).port();
      if (r == 0) place.listener = ::dup(listener.fd());
      auto mesh = std::make_shared<tcp::Mesh>(r, tcp::meet(place));
      body(std::make_shared<TcpTransport>(mesh), *mesh);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace bora::testing
