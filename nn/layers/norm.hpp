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

  /// The ranks over which sync_batch joins its statistics; nullptr: this rank alone.  Not owned.
  void set_collective(Collective* ranks) { ranks_ = ranks; }

 private:
  NormKind kind_;
  int64_t groups_;
  double eps_;
  Parameter gamma_, beta_;
  BatchNormState running_;
  Collective* ranks_ = nullptr;
};

}  // namespace bora::nn
