// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: bytes by TCP.
#pragma once

#include "comm/tcp_mesh.hpp"
#include "comm/transport.hpp"

namespace bora {

/// A group of the ranks of a mesh.
class TcpTransport final : public Transport {
 public:
  /// All ranks.
  explicit TcpTransport(std::shared_ptr<tcp::Mesh> mesh);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  const char* name() const override { return "TCP"; }

  Request send(const void* data, int64_t bytes, int peer, int tag) override;
  Request receive(void* data, int64_t bytes, int peer, int tag) override;
  bool test(std::span<Request> requests) override;
  bool test_unwanted(Request& request) override;
  void cancel(Request& request) override;
  int take(void* data, int64_t bytes, int tag) override;
  void progress() override { mesh_->progress(); }
  void rest(std::chrono::microseconds time) override { mesh_->rest(time); }
  std::vector<int> lowest_on_host() override;
  std::unique_ptr<Transport> split(int color, int key) override;

 private:
  TcpTransport(std::shared_ptr<tcp::Mesh> mesh, uint64_t group, std::vector<int> members, int rank)
      : mesh_(std::move(mesh)), group_(group), members_(std::move(members)), rank_(rank) {}
  int member(int peer) const;

  std::shared_ptr<tcp::Mesh> mesh_;
  uint64_t group_;            // the same on all members, another for every other group
  std::vector<int> members_;  // ranks of the mesh
  int rank_ = 0;
  uint64_t n_splits_ = 0;
};

}  // namespace bora
