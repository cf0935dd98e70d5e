// SPDX-License-Identifier: Apache-2.0
// Deep supervision: losses of the decoder levels below the top, for training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/unet3d/loss.hpp"
#include "apps/unet3d/model.hpp"
#include "core/tensor.hpp"

namespace bora::unet3d {

/// What the loss of level l counts for: 2^-l / (1 + 1/2 + ... + 2^-n), l = 0 .. n for n heads below
/// the top; they add up to 1.  Source: Isensee et al. 2021 (nnU-Net).
std::vector<double> level_weights(int64_t n_heads);

/// What level l's prediction is compared with.
struct LevelTarget {
  Tensor target;  ///< (N, D / 2^l, H / 2^l, W / 2^l, K) f32, extents rounded down
  Tensor region;  ///< of the same cells, u8
};
/// target (N, D, H, W, K) f32, region (N, D, H, W) u8 or undefined; level >= 1.  A coarse cell
/// stands for the 2^l cells along each axis that max pooling made one: its target is the mean over
/// those of them that are in the region, and it counts if at least half of them are.  Cells behind
/// the last whole block of an odd extent belong to none, as in max pooling.
LevelTarget target_of_level(const Tensor& target, const Tensor& region, int64_t level);

/// "charbonnier_level1", ...: parts of the loss that only training has, in order; empty without
/// deep supervision.
std::vector<std::string> deep_loss_names(const LossConfig& loss, const ModelConfig& model);

/// The loss of `model`'s predictions of all levels: sum over l of level_weights()[l] * (data loss +
/// lambda * gradient loss) at level l.  Parts: "loss", that sum; then those of the top level under
/// the names they have without deep supervision, unweighted; then those of deep_loss_names().
/// Throws Error if the model has no head below the top.
Loss deep_loss(const LossConfig& config, UNet3d& model, const Tensor& input, const Tensor& target,
               const Tensor& region);

}  // namespace bora::unet3d
