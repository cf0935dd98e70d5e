// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: Collective over a transport (MPI or TCP), for host memory.
#pragma once

#include "comm/communicator.hpp"
#include "comm/engine.hpp"
#include "comm/point_to_point.hpp"

namespace bora {

/// Every operation goes through one queue and is carried out in order by one thread, so operations
/// of a communicator never overtake each other.  See Engine for how.
class TransportCommunicator final : public Collective {
 public:
  /// Of all ranks of `transport`, which nobody else may use.
  TransportCommunicator(std::shared_ptr<Transport> transport, std::string host,
                        const CommunicatorOptions& options,
                        std::shared_ptr<const RankGroup> group = RankGroup::world());
  /// Waits for operations under way, unless an exception is: then they are given up.
  ~TransportCommunicator() override;

  int rank() const override { return engine_->rank(); }
  int size() const override { return engine_->size(); }
  DeviceType device_type() const override { return DeviceType::cpu; }
  bool sums_in_tree_order() const override {
    return size() == 1 || options_.all_reduce == AllReduceAlgorithm::reproducible;
  }
  Work all_reduce_async(Tensor x, ReduceOp op, std::string_view label) override;
  using Collective::all_reduce;
  void all_reduce(Tensor& x, ReduceOp op, std::string_view label) override;
  void broadcast(Tensor& x, int root, std::string_view label) override;
  void all_gather(const Tensor& x, Tensor& out, std::string_view label) override;
  void gather(const Tensor& x, Tensor& out, int root, std::string_view label) override;
  void reduce(Tensor& x, int root, ReduceOp op, std::string_view label) override;
  void reduce_scatter(const Tensor& x, Tensor& out, ReduceOp op, std::string_view label) override;
  Work send_async(Tensor x, int to, std::string_view label) override;
  Work receive_async(Tensor x, int from, std::string_view label) override;
  void barrier(std::string_view label) override;
  std::unique_ptr<Collective> split(int color, int key) override;

  void set_timeout(double seconds);
  Tensor make_shared_tensor(int64_t bytes);
  int64_t bytes_sent() const { return engine_->bytes_sent(); }

 private:
  std::shared_ptr<Operation> make(OperationKind kind, Tensor in, std::string_view label);
  Work submit(std::shared_ptr<Operation> operation);
  /// The same for an operation that is waited for: at once and in this thread where that is safe.
  void run(std::shared_ptr<Operation> operation);

  std::shared_ptr<const RankGroup> part_of_group(const Tensor& colors_and_keys, int color) const;

  std::string host_;
  std::shared_ptr<const RankGroup> group_;
  CommunicatorOptions options_;
  std::shared_ptr<Heartbeat> heartbeat_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<OperationQueue> queue_;
  std::unique_ptr<PointToPoint> pairs_;
  std::shared_ptr<StatusBoard> board_;  // of the world; else null
  uint64_t sequence_ = 0;
  int exceptions_ = 0;
};

}  // namespace bora
