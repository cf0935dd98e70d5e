// SPDX-License-Identifier: Apache-2.0
// Schedules: learning rate and beta1 as a pure function of the number of updates made, the same on
// host and device.  Checked and documented for users in nn/optim/schedule.hpp.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "core/portable.hpp"

namespace bora::kernels {

/// The settings of every kind; unused ones are ignored.
struct Schedule {
  enum class Kind { constant, step, cosine, one_cycle };
  Kind kind = Kind::one_cycle;
  double peak = 1e-3;
  int64_t total = 1;   ///< updates of the whole run
  int64_t begin = 0;   ///< updates made under an earlier schedule: this one starts after them
  int64_t warmup = 0;  ///< constant, step, cosine: linear warm-up over so many updates
  double warmup_start = 0.0;  ///< where that warm-up comes from; at most peak
  int64_t step_every = 1;     ///< step: multiply by `step_factor` each so many updates
  double step_factor = 0.1;
  double warm_fraction = 0.3;  ///< one_cycle: share of the run that warms up
  double div = 25.0;           ///< one_cycle: starts at peak / div
  double final_div =
      1e4;  ///< one_cycle: ends at peak / div / final_div; cosine: ends at peak / final_div
  bool cycle_beta1 = true;  ///< one_cycle: beta1 moves against the rate
  double beta1_low = 0.85, beta1_high = 0.95;
};

namespace detail {

BORA_HD inline double cosine_between(double from, double to, double fraction) {
  return to + (from - to) * 0.5 * (1.0 + std::cos(std::numbers::pi * fraction));
}

/// Where one_cycle stands: warming up or cooling down, and how far.
struct CyclePhase {
  bool warming;
  double fraction;
};
BORA_HD inline CyclePhase cycle_phase(const Schedule& s, int64_t done) {
  const double step = static_cast<double>(done < s.total - 1 ? done : s.total - 1);
  const double top = s.warm_fraction * static_cast<double>(s.total) - 1.0;
  const double end = static_cast<double>(s.total) - 1.0;
  if (step <= top) return {true, top > 0 ? step / top : 1.0};
  // A run too short to warm up (top < 0) starts at the peak and only cools down.
  const double start = top < 0.0 ? 0.0 : top;
  return {false, end > start ? (step - start) / (end - start) : 1.0};
}

}  // namespace detail

/// The rate of the update that comes after `done` updates, done >= s.begin.
BORA_HD inline double scheduled_rate(const Schedule& s, int64_t all_done) {
  const int64_t done = all_done - s.begin;
  if (s.kind == Schedule::Kind::one_cycle) {
    const detail::CyclePhase phase = detail::cycle_phase(s, done);
    const double first = s.peak / s.div;
    return phase.warming ? detail::cosine_between(first, s.peak, phase.fraction)
                         : detail::cosine_between(s.peak, first / s.final_div, phase.fraction);
  }
  if (done < s.warmup)
    return s.warmup_start + (s.peak - s.warmup_start) * static_cast<double>(done + 1) /
                                static_cast<double>(s.warmup);
  const int64_t after = (done < s.total - 1 ? done : s.total - 1) - s.warmup;
  switch (s.kind) {
    case Schedule::Kind::step:
      return s.peak *
             std::pow(s.step_factor, static_cast<double>((done - s.warmup) / s.step_every));
    case Schedule::Kind::cosine: {
      const int64_t steps = s.total - 1 - s.warmup;
      const double length = static_cast<double>(steps > 1 ? steps : 1);
      const double fraction = static_cast<double>(after) / length;
      return detail::cosine_between(s.peak, s.peak / s.final_div, fraction < 1.0 ? fraction : 1.0);
    }
    default:
      return s.peak;
  }
}

/// beta1 of that update: `fixed` unless one_cycle cycles it.
BORA_HD inline double scheduled_beta1(const Schedule& s, int64_t all_done, double fixed) {
  if (s.kind != Schedule::Kind::one_cycle || !s.cycle_beta1) return fixed;
  const detail::CyclePhase phase = detail::cycle_phase(s, all_done - s.begin);
  return phase.warming ? detail::cosine_between(s.beta1_high, s.beta1_low, phase.fraction)
                       : detail::cosine_between(s.beta1_low, s.beta1_high, phase.fraction);
}

}  // namespace bora::kernels
