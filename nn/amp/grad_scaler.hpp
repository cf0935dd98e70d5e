// SPDX-License-Identifier: Apache-2.0
// GradScaler: dynamic loss scaling for f16.
#pragma once

#include "core/state.hpp"
#include "kernels/loss_scale.hpp"
#include "nn/optim/optimizer.hpp"

namespace bora::nn {

/// Small gradients vanish in f16, so the loss is multiplied by a scale and the gradients are
/// divided by it again, in f32.  One window:
///   backward(loss, seed * scale());  ...  reduce over ranks
///   GradientNorm g = scaler.unscale(arena);
///   if (g.non_finite == 0) { clip; optimizer.step }   // else the update is skipped
///   scaler.advance();
/// All ranks see the same reduced gradients, so they agree on skipping and on the scale.  bf16 has
/// the range of f32 and needs none of this.
class GradScaler {
 public:
  /// Throws UsageError naming the setting if one is out of range.
  explicit GradScaler(const kernels::LossScaleRule& rule, Device device = cpu());

  /// What the loss of this window is multiplied by.
  double scale() const { return state_now().scale; }
  /// Whether the scale cannot fall any further: another overflow is not the scale's fault.
  bool at_lowest() const { return scale() <= rule_.lowest; }
  int64_t skipped() const { return static_cast<int64_t>(state_now().skipped); }

  /// Divides the gradients by the scale and measures the result, in one pass.  Throws Error if
  /// called twice in a window.
  GradientNorm unscale(ParameterArena& arena);
  /// Ends the window: the scale's transition.  Throws Error without an unscale() before it.
  void advance();

  /// Keeps the state in `place` (4) f64 from now on, on any device; it gets the present values.
  /// Where the state moves on the device (kernels::step_scalars), unscale() and advance() are not
  /// used, and the functions above wait for the device.
  void move_state_to(const Tensor& place);

  const kernels::LossScaleRule& rule() const { return rule_; }
  void state(StateVisitor& visitor);

 private:
  kernels::LossScaleState state_now() const;

  kernels::LossScaleRule rule_;
  Tensor state_;  // (4) f64 on the device
  Tensor stats_;  // (3) f64 on the device, of this window
  bool unscaled_ = false;
};

}  // namespace bora::nn
