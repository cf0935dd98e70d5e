// SPDX-License-Identifier: Apache-2.0
#include "apps/train/setup.hpp"

namespace bora::train {

std::unique_ptr<nn::Optimizer> make_optimizer(const OptimConfig& c, nn::ParameterArena& arena) {
  if (c.kind == "adamw")
    return nn::make_adamw(arena, {.beta1 = c.beta1,
                                  .beta2 = c.beta2,
                                  .eps = c.eps,
                                  .weight_decay = c.weight_decay,
                                  .decay_all = c.decay_all});
  if (c.kind == "sgd")
    return nn::make_sgd(arena, {.momentum = c.momentum,
                                .nesterov = c.nesterov,
                                .weight_decay = c.weight_decay,
                                .decay_all = c.decay_all});
  throw UsageError("optim.kind '" + c.kind + "': wanted adamw or sgd");
}

kernels::LossScaleRule scale_rule_of(const ScalerConfig& c) {
  return {.initial = c.initial,
          .growth = c.growth,
          .backoff = c.backoff,
          .interval = c.interval,
          .lowest = c.lowest,
          .highest = c.highest,
          .hysteresis = c.hysteresis};
}

nn::Schedule schedule_of(const OptimConfig& c, int64_t total, int n_ranks) {
  const bool linear = c.scale_lr == "linear";
  if (linear && c.schedule != "one_cycle" && c.warmup == 0)
    throw UsageError("optim.scale_lr=linear with optim.schedule=" + c.schedule +
                     ": wanted optim.warmup > 0, the updates in which the rate grows from optim.lr "
                     "to optim.lr times the number of ranks");
  return {.kind = nn::schedule_kind(c.schedule),
          .peak = linear ? c.lr * n_ranks : c.lr,
          .total = total,
          .warmup = c.warmup,
          .warmup_start = linear ? c.lr : 0.0,
          .step_every = c.step_every,
          .step_factor = c.step_factor,
          .warm_fraction = c.warm_fraction,
          .div = c.div,
          .final_div = c.final_div,
          .cycle_beta1 = c.cycle_beta1};
}

}  // namespace bora::train
