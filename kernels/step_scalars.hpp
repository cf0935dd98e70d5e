// SPDX-License-Identifier: Apache-2.0
// StepScalars: the numbers of an update, kept where the parameters are.  Loss scale, skip flag,
// clip factor, learning rate and number of updates go from window to window without the host.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/portable.hpp"
#include "core/tensor.hpp"
#include "kernels/grad_stats.hpp"
#include "kernels/loss_scale.hpp"
#include "kernels/schedule.hpp"

namespace bora::kernels {

/// All f64, also the counts and flags (0 or 1), so that they are one tensor (kStepScalars)
/// f64, in this order.
struct StepScalars {
  // Last from window to window, and into a checkpoint.
  double updates = 0;    ///< made so far
  LossScaleState scale;  ///< of the next window; scale.scale = 1 where the loss is not scaled
  // Of the window that ended last.
  double refused = 0;             ///< sticky: not finite, and no smaller loss scale can help
  double non_finite = 0;          ///< gradient values that are NaN or inf
  double norm = 0;                ///< of the gradients without loss scale; NaN if any is not finite
  double window_scale = 1;        ///< that its gradients were multiplied by
  double unscale = 1;             ///< 1 / window_scale; written by scaled_grad_stats
  double clip = 1;                ///< factor that limits the norm
  double rate = 0;                ///< learning rate of its update
  double beta1 = 0;               ///< AdamW's, or SGD's momentum
  double step_size = 0;           ///< rate / (1 - beta1^t), t the number of this update, from 1
  double inverse_root_bias2 = 1;  ///< 1 / sqrt(1 - beta2^t)
  double skip = 0;                ///< nothing may be written: non_finite > 0, or refused
};
inline constexpr int64_t kStepScalars = 16;
static_assert(sizeof(StepScalars) == kStepScalars * sizeof(double));

/// What does not change from update to update.
struct StepRule {
  Schedule schedule{};  ///< must be valid: nn::check_schedule
  double max_norm = 0;  ///< 0: no clipping
  bool scales = false;  ///< whether the loss is scaled, by `loss_scale`
  LossScaleRule loss_scale{};
  double beta1 = 0.9;  ///< where the schedule does not cycle it
  double beta2 = 0.999;
};

/// The numbers of the update that follows a window, from the statistics of its gradients (of
/// scaled_grad_stats): what nn::Optimizer, nn::GradScaler and the schedule compute on the
/// host, in the same order and type.
BORA_HD inline StepScalars next_step(const StepRule& rule, const StepScalars& before,
                                     double sum_of_squares, double non_finite) {
  StepScalars s = before;
  const bool overflow = non_finite > 0.0;
  s.window_scale = before.scale.scale;
  s.non_finite = non_finite;
  s.norm = overflow ? std::nan("") : std::sqrt(sum_of_squares);
  if (overflow && !(rule.scales && s.window_scale > rule.loss_scale.lowest)) s.refused = 1;
  s.skip = overflow || s.refused != 0 ? 1 : 0;
  const auto done = static_cast<int64_t>(before.updates);
  s.rate = scheduled_rate(rule.schedule, done);
  s.beta1 = scheduled_beta1(rule.schedule, done, rule.beta1);
  const double t = before.updates + 1;
  const double bias1 = 1.0 - std::pow(s.beta1, t), bias2 = 1.0 - std::pow(rule.beta2, t);
  s.step_size = s.rate / bias1;
  s.inverse_root_bias2 = 1.0 / std::sqrt(bias2);
  s.clip = 1;
  if (s.skip == 0) {
    s.clip = clip_factor(s.norm, rule.max_norm);
    s.updates = t;
  }
  if (rule.scales) s.scale = next(rule.loss_scale, before.scale, overflow);
  return s;
}

/// The rule as bytes on a device, (sizeof(StepRule)) u8: a captured graph that reads it need not be
/// captured again when the rule changes.  Waits for the device.
Tensor step_rule_on(Device device, const StepRule& rule);
/// Overwrites `on_device` with another rule.  Waits for the device.
void set_step_rule(Tensor& on_device, const StepRule& rule);

/// The numbers at the start of a run, (kStepScalars) f64.  Waits for the device.
Tensor step_scalars_on(Device device, const StepScalars& first);
/// The same the other way, from the host.  Throws Error if it is on a device.
StepScalars step_scalars_of(const Tensor& host);

/// scalars = next_step(rule, scalars, stats[0], stats[1]); rule of step_rule_on; stats (3) f64.
/// Without the host.
void step_scalars(Stream stream, const Tensor& rule, const Tensor& stats, Tensor& scalars);

/// seed () f32 = (float)(weight * loss scale of the next window): what its backward passes begin
/// with.  Without the host.
void loss_seed(Stream stream, double weight, const Tensor& scalars, Tensor& seed);

}  // namespace bora::kernels
