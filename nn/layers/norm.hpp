// SPDX-License-Identifier: Apache-2.0
// Norm: one layer for group, instance and batch normalisation, so that a network takes the kind as
// a setting.
#pragma once

#include <string>

#include "nn/module.hpp"
#include "nn/ops.hpp"

namespace bora::nn {

/// Groups of a group norm over `channels` > 0: the largest divisor of `channels` that is at most
/// `groups` > 0.  With the usual 8, 20 channels get 5 groups, 7 get 7, 11 get 1.  Source: spec
/// unet3d.md 1.
int64_t group_count(int64_t channels, int64_t groups = 8);

enum class NormKind { group, instance, batch, sync_batch };
NormKind norm_kind(const std::string& name);

/// Scale gamma (starts at 1) and shift beta (starts at 0), each (C).  batch kinds also keep running
/// statistics.
class Norm final : public Module {
 public:
  Norm(NormKind kind, int64_t channels, int64_t groups = 8, double eps = 1e-5);
  /// activation(norm(x) + residual) in one pass.
  Tensor forward(const Tensor& x, const NormFusion& fusion = {});
  void visit(Visitor& v) override;
  std::string describe() const override;

  NormKind kind() const { return kind_; }
  /// The ranks over which sync_batch joins its statistics; nullptr: this rank alone.  Not owned.
  void set_collective(Collective* ranks) { ranks_ = ranks; }
  /// From batch to sync_batch over `ranks`: parameters, running statistics and names stay as they
  /// are.  Throws Error for a norm that is neither.
  void synchronise(Collective* ranks);

 private:
  NormKind kind_;
  int64_t groups_;
  double eps_;
  Parameter gamma_, beta_;
  BatchNormState running_;
  Collective* ranks_ = nullptr;
};

/// Makes every batch norm in `module`, itself or at any depth, a synchronised one over `ranks` (not
/// owned; nullptr: this rank alone), and gives `ranks` to those that are one already; other layers
/// are left alone.  The layers stay where they are, so that parameters, running statistics, their
/// names, the arena and the optimizer remain valid: it may be called before or after any of them is
/// made.  Returns how many layers are synchronised now.
int64_t convert_to_sync_batch_norm(Module& module, Collective* ranks);

}  // namespace bora::nn
