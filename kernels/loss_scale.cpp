// SPDX-License-Identifier: Apache-2.0
#include "kernels/loss_scale.hpp"

#include "kernels/for_each.hpp"
#include "kernels/volume.hpp"

namespace bora::kernels {
namespace {

struct Advance {
  LossScaleRule rule;
  const double* stats;
  double* state;
  BORA_HD void operator()(int64_t) const {
    const LossScaleState s = next(rule, {state[0], state[1], state[2], state[3]}, stats[1] > 0.0);
    state[0] = s.scale;
    state[1] = s.good;
    state[2] = s.tolerated;
    state[3] = s.skipped;
  }
};

}  // namespace

void advance_loss_scale(Stream stream, const LossScaleRule& rule, const Tensor& stats,
                        Tensor& state) {
  BORA_CHECK(state.defined(), "advance_loss_scale: the state is undefined");
  check_tensor(stats, {3}, DType::f64, state.device(), "advance_loss_scale: statistics");
  check_tensor(state, {4}, DType::f64, state.device(), "advance_loss_scale: state");
  for_each(stream, 1, Advance{rule, stats.data<double>(), state.data<double>()});
}

}  // namespace bora::kernels
