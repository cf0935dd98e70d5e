// SPDX-License-Identifier: Apache-2.0
// From settings to objects: the optimizer, its schedule, the loss scale.
#pragma once

#include <cstdint>
#include <memory>

#include "apps/train/config.hpp"
#include "kernels/loss_scale.hpp"
#include "nn/optim/optimizer.hpp"
#include "nn/optim/schedule.hpp"
#include "nn/parameter_arena.hpp"

namespace bora::train {

/// Throws UsageError for a kind that there is not.
std::unique_ptr<nn::Optimizer> make_optimizer(const OptimConfig& config, nn::ParameterArena& arena);
kernels::LossScaleRule scale_rule_of(const ScalerConfig& config);
/// The schedule of a run of `total` updates by `n_ranks` ranks.  Throws UsageError where
/// optim.scale_lr=linear has no warm-up to reach the larger rate by.
nn::Schedule schedule_of(const OptimConfig& config, int64_t total, int n_ranks);

}  // namespace bora::train
