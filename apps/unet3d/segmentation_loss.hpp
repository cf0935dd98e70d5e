// SPDX-License-Identifier: Apache-2.0
// The loss of a segmentation: soft Dice and cross-entropy, each under its own name.
#pragma once

#include <string>
#include <vector>

#include "apps/train/task.hpp"
#include "apps/unet3d/segmentation_config.hpp"
#include "core/tensor.hpp"

namespace bora::unet3d {

/// "loss", then of "dice_loss" and "cross_entropy" those whose weight is not 0.
std::vector<std::string> loss_names(const SegmentationConfig& config);
/// Throws UsageError where both weights are 0.
void check_loss(const SegmentationConfig& config);

/// dice_weight * (1 - soft Dice) + cross_entropy_weight * cross-entropy, each a mean over samples
/// (nn::dice_cross_entropy).  logits (N, D, H, W, K); labels (N, D, H, W, 1) u8 below K; region
/// (N, D, H, W) u8, weights of cells (N, D, H, W) f32, either may be undefined.  A batch of no
/// samples has the loss 0.
train::Loss compute_loss(const SegmentationConfig& config, const Tensor& logits,
                         const Tensor& labels, const Tensor& region, const Tensor& weights);

/// The same loss of one case that comes in pieces: its sums are joined, so that no more than a
/// piece is in memory.  On the CPU.
class CaseLoss {
 public:
  explicit CaseLoss(int64_t n_classes);
  /// logits (X, Y, Z, K) f32; labels and region (X, Y, Z) u8, weights (X, Y, Z) f32; region may be
  /// undefined, weights too, for all pieces.  Pieces in one order give the same bits.
  void add(const Tensor& logits, const Tensor& labels, const Tensor& region,
           const Tensor& weights = {});
  /// Throws Error if a label is no class or a weight is bad.
  train::Loss value(const SegmentationConfig& config) const;

 private:
  Tensor sums_;  // (1, K, 5) f64, of class_loss_sums
  bool weighted_ = false;
};

}  // namespace bora::unet3d
