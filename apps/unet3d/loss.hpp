// SPDX-License-Identifier: Apache-2.0
// The loss of the trainer: a data term and a gradient term, each under its own name.
#pragma once

#include <string>
#include <vector>

#include "apps/train/task.hpp"
#include "apps/unet3d/config.hpp"
#include "apps/unet3d/model.hpp"
#include "core/tensor.hpp"

namespace bora::unet3d {

/// total: data loss + lambda * gradient loss.  parts: ("loss", total), ("charbonnier", ...),
/// ("gradient_plain", ...).
using train::Loss;

/// prediction, target (N, D, H, W, K); region (N, D, H, W) u8.  lambda 0: no gradient term is
/// computed.
Loss compute_loss(const LossConfig& config, const Tensor& prediction, const Tensor& target,
                  const Tensor& region);
/// The same of `head`'s prediction from `features`.  On a device, where no gradient term asks for
/// the prediction itself, head and data loss are one op (nn::head_data_loss), whose prediction is
/// in f32 also under mixed precision.
Loss compute_loss(const LossConfig& config, const nn::Conv3d& head, const Tensor& features,
                  const Tensor& target, const Tensor& region);
/// The same of `model`'s prediction for `input`, of its top head alone.
Loss compute_loss(const LossConfig& config, UNet3d& model, const Tensor& input,
                  const Tensor& target, const Tensor& region);
/// The names of its parts, in order: what every rank declares to the metrics.
std::vector<std::string> loss_names(const LossConfig& config);

}  // namespace bora::unet3d
