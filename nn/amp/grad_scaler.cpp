// SPDX-License-Identifier: Apache-2.0
#include "nn/amp/grad_scaler.hpp"

#include <cmath>

#include "kernels/grad_stats.hpp"

namespace bora::nn {
namespace {

void check(bool ok, const char* key, double value, const char* wanted) {
  if (!ok) throw UsageError(detail::join("scaler.", key, " is ", value, ": wanted ", wanted));
}

}  // namespace

GradScaler::GradScaler(const kernels::LossScaleRule& rule, Device device) : rule_(rule) {
  check(std::isfinite(rule.lowest) && rule.lowest > 0, "lowest", rule.lowest, "above 0");
  check(std::isfinite(rule.highest) && rule.highest >= rule.lowest, "highest", rule.highest,
        "at least scaler.lowest");
  check(rule.initial >= rule.lowest && rule.initial <= rule.highest, "initial", rule.initial,
        "between scaler.lowest and scaler.highest");
  check(rule.growth >= 1, "growth", rule.growth, "at least 1");
  check(rule.backoff > 0 && rule.backoff < 1, "backoff", rule.backoff, "between 0 and 1");
  check(rule.interval >= 1, "interval", static_cast<double>(rule.interval), "at least 1");
  check(rule.hysteresis >= 1, "hysteresis", static_cast<double>(rule.hysteresis), "at least 1");
  state_ = Tensor::from<double>({4}, std::vector<double>{rule.initial, 0, 0, 0}, device);
  stats_ = Tensor::zeros({3}, DType::f64, device);
}

kernels::LossScaleState GradScaler::state_now() const {
  const std::vector<double> s = state_.to_vector<double>();
  return {s[0], s[1], s[2], s[3]};
}

GradientNorm GradScaler::unscale(ParameterArena& arena) {
  BORA_CHECK(!unscaled_,
             "GradScaler: unscale twice in a window would divide the gradients by the "
             "scale twice; call advance() first");
  unscaled_ = true;
  Tensor& gradients = arena.gradients().all();
  kernels::unscale_and_stats(gradients.stream(), 1.0 / scale(), gradients, stats_);
  return gradient_norm_of(stats_);
}

void GradScaler::advance() {
  BORA_CHECK(unscaled_, "GradScaler: advance() without unscale() before it in this window");
  unscaled_ = false;
  kernels::advance_loss_scale(state_.stream(), rule_, stats_, state_);
}

void GradScaler::move_state_to(const Tensor& place) {
  BORA_CHECK(!unscaled_, "GradScaler: the state cannot move between unscale() and advance()");
  BORA_CHECK(place.defined() && place.shape() == Shape{4} && place.dtype() == DType::f64,
             "GradScaler: wants a place of (4) f64 for its state");
  Tensor moved = place;
  moved.copy_from(state_);
  if (place.device() != cpu()) moved.stream().synchronize();  // the source may go now
  state_ = moved;
}

void GradScaler::state(StateVisitor& visitor) { visitor.tensor("loss_scale", state_); }

}  // namespace bora::nn
