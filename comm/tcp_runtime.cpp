// SPDX-License-Identifier: Apache-2.0
// Ranks that find each other by TCP.
#include "comm/runtime.hpp"
#include "comm/tcp_transport.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

#include <algorithm>

namespace bora {
namespace {

class TcpRuntime final : public Runtime {
 public:
  explicit TcpRuntime(const LaunchPlace& place)
      : mesh_(std::make_shared<tcp::Mesh>(place.rank, tcp::meet(place))),
        world_(std::make_shared<TcpTransport>(mesh_)),
        host_(mesh_->host(place.rank)) {}
  const std::shared_ptr<Transport>& world() const override { return world_; }
  const std::string& host() const override { return host_; }
  ThreadLevel thread_level() const override { return ThreadLevel::multiple; }
  void finish() override { mesh_->goodbye(); }
  void abort(int code) const override { mesh_->abort(code); }

 private:
  std::shared_ptr<tcp::Mesh> mesh_;
  std::shared_ptr<Transport> world_;
  std::string host_;
};

}  // namespace

std::unique_ptr<Runtime> start_tcp(const LaunchPlace& place) {
  log_set_rank(place.rank, place.size);
  auto runtime = std::make_unique<TcpRuntime>(place);
  if (!place.local_rank) return runtime;
  const std::vector<int> lowest = runtime->world()->lowest_on_host();
  const auto me = lowest.begin() + place.rank;
  const auto found = std::count(lowest.begin(), me, *me);
  if (found != *place.local_rank)
    log_warn("the launcher says local rank ", *place.local_rank, ", but there are ", found,
             " lower ranks on host ", runtime->host(), "; going on with local rank ", found);
  return runtime;
}

}  // namespace bora
