// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: Collective over an NcclEngine.
#pragma once

#include "comm/nccl_engine.hpp"
#include "comm/operation.hpp"

namespace bora {

class NcclPairs;

/// What has to be the same on all ranks, before NCCL gets to see it.
struct NcclRequest {
  OperationKind kind = OperationKind::barrier;
  std::string_view label;
  DType type = DType::f32;
  int64_t count = 0;
  ReduceOp reduce_op = ReduceOp::sum;
  int root = -1;
};

class NcclGroup final : public NcclCommunicator {
 public:
  /// `host` has the same ranks; `owned_host` owns it where nobody else does.
  NcclGroup(std::shared_ptr<NcclEngine> engine, Collective& host,
            std::unique_ptr<Collective> owned_host, const NcclOptions& options);
  /// Waits for operations under way, bounded; aborts them when an exception is on its way or one
  /// has been given up.
  ~NcclGroup() override;

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  Collective& control() override { return host_; }
  int device() const override { return engine_->stream().device(); }
  using Collective::all_reduce;
  Work all_reduce_async(Tensor x, ReduceOp op, std::string_view label) override;
  void broadcast(Tensor& x, int root, std::string_view label) override;
  void all_gather(const Tensor& x, Tensor& out, std::string_view label) override;
  void gather(const Tensor& x, Tensor& out, int root, std::string_view label) override;
  void reduce(Tensor& x, int root, ReduceOp op, std::string_view label) override;
  void reduce_scatter(const Tensor& x, Tensor& out, ReduceOp op, std::string_view label) override;
  Work send_async(Tensor x, int to, std::string_view label) override;
  Work receive_async(Tensor x, int from, std::string_view label) override;
  void barrier(std::string_view label) override;
  std::unique_ptr<Collective> split(int color, int key) override;
  void check() override;
  void synchronize() override;
  void abort(const std::string& reason) noexcept override { engine_->abort(reason); }
  void set_timeout(double seconds) override;

 private:
  void check_device(const Tensor& x, const char* op, std::string_view label) const;
  ncclRedOp_t native(ReduceOp op, DType type, const char* what, std::string_view label) const;
  /// Numbers the request and, when it is time, compares it with the other ranks'.
  uint64_t announce(const NcclRequest& request, bool compare_now = false);
  void compare(uint64_t number, const std::string& text);
  Work submit(const NcclRequest& request, std::vector<Tensor> tensors,
              const NcclEngine::Enqueue& enqueue);

  std::unique_ptr<Collective> owned_host_;
  Collective& host_;
  NcclOptions options_;
  std::shared_ptr<NcclEngine> engine_;
  std::shared_ptr<NcclPairs> pairs_;
  int exceptions_ = 0;
};

ncclDataType_t nccl_type(DType type);

}  // namespace bora
