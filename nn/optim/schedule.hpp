// SPDX-License-Identifier: Apache-2.0
// Schedules: the learning rate as a pure function of the number of updates made.
#pragma once

#include <cstdint>
#include <string>

namespace bora::nn {

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

/// The rate of the update that comes after `done` updates.  A skipped update does not count.  Past
/// the end the last value holds.  one_cycle: peak/div at 0, peak at warm_fraction*total - 1,
/// peak/div/final_div at total - 1, cosine in between. Source: Smith and Topin 2018, in the form
/// that PyTorch made common.  Throws Error on settings out of range.
double learning_rate(const Schedule& schedule, int64_t done);

/// beta1 of that update: `fixed` unless one_cycle cycles it.
double momentum(const Schedule& schedule, int64_t done, double fixed);

Schedule::Kind schedule_kind(const std::string& name);

}  // namespace bora::nn
