// SPDX-License-Identifier: Apache-2.0
// Dynamic loss scaling as a state machine: one pure transition, the same on host and device.
#pragma once

#include <cstdint>

#include "core/portable.hpp"
#include "core/tensor.hpp"

namespace bora::kernels {

/// Defaults are those that mixed precision training settled on.  Powers of two keep unscaling
/// exact.
struct LossScaleRule {
  double initial = 65536.0;
  double growth = 2.0;          ///< factor after `interval` good updates in a row
  double backoff = 0.5;         ///< factor after an overflow
  int64_t interval = 2000;      ///< good updates in a row before the scale grows
  double lowest = 1.0;          ///< never below; an overflow there cannot be cured by scaling
  double highest = 16777216.0;  ///< never above (2^24: f16 gradients of size 2^-8 would overflow)
  int64_t hysteresis = 1;       ///< overflows since the last growth before the scale is lowered
};

struct LossScaleState {
  double scale = 65536.0;
  double good = 0;       ///< updates in a row without overflow since the scale last changed
  double tolerated = 0;  ///< overflows that hysteresis has let pass
  double skipped = 0;    ///< updates skipped since the start of the run
};

/// The state after one update: `overflow` says that a gradient was not finite, and that the update
/// was skipped.
BORA_HD inline LossScaleState next(const LossScaleRule& rule, LossScaleState s, bool overflow) {
  if (overflow) {
    s.skipped += 1;
    s.good = 0;
    s.tolerated += 1;
    if (s.tolerated >= static_cast<double>(rule.hysteresis)) {
      const double lower = s.scale * rule.backoff;
      s.scale = lower < rule.lowest ? rule.lowest : lower;
      s.tolerated = 0;
    }
    return s;
  }
  s.good += 1;
  if (s.good >= static_cast<double>(rule.interval)) {
    const double higher = s.scale * rule.growth;
    s.scale = higher > rule.highest ? rule.highest : higher;
    s.good = 0;
    s.tolerated = 0;
  }
  return s;
}

/// `state` (4) f64 on a device, in the order of LossScaleState, becomes next(rule, state, stats[1]
/// > 0); stats (3) f64 of grad_stats.
void advance_loss_scale(Stream stream, const LossScaleRule& rule, const Tensor& stats,
                        Tensor& state);

}  // namespace bora::kernels
