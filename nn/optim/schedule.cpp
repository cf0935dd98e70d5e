// SPDX-License-Identifier: Apache-2.0
#include "nn/optim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.hpp"

namespace bora::nn {
namespace {

double cosine(double from, double to, double fraction) {
  return to + (from - to) * 0.5 * (1.0 + std::cos(std::numbers::pi * fraction));
}

void check(const Schedule& s) {
  BORA_CHECK(s.total > 0, "schedule: total updates must be positive, got ", s.total);
  BORA_CHECK(s.begin >= 0, "schedule: begin must not be negative, got ", s.begin);
  BORA_CHECK(s.peak >= 0, "schedule: peak rate must not be negative, got ", s.peak);
  BORA_CHECK(s.warmup >= 0 && s.step_every > 0, "schedule: warmup ", s.warmup, ", step_every ",
             s.step_every);
  BORA_CHECK(s.warmup_start >= 0 && s.warmup_start <= s.peak, "schedule: warmup_start ",
             s.warmup_start, " must lie in [0, peak ", s.peak, "]");
  BORA_CHECK(s.div >= 1 && s.final_div >= 1, "schedule: div ", s.div, " and final_div ",
             s.final_div, " must be at least 1");
  BORA_CHECK(s.warm_fraction >= 0 && s.warm_fraction <= 1, "schedule: warm_fraction ",
             s.warm_fraction, " must lie in [0, 1]");
}

// Where one_cycle stands: warming up or cooling down, and how far.
struct Phase {
  bool warming;
  double fraction;
};
Phase one_cycle_phase(const Schedule& s, int64_t done) {
  const double step = static_cast<double>(std::min(done, s.total - 1));
  const double top = s.warm_fraction * static_cast<double>(s.total) - 1.0;
  const double end = static_cast<double>(s.total) - 1.0;
  if (step <= top) return {true, top > 0 ? step / top : 1.0};
  // A run too short to warm up (top < 0) starts at the peak and only cools down.
  const double start = std::max(top, 0.0);
  return {false, end > start ? (step - start) / (end - start) : 1.0};
}

}  // namespace

double learning_rate(const Schedule& s, int64_t all_done) {
  check(s);
  BORA_CHECK(all_done >= s.begin, "learning_rate: ", all_done,
             " updates done, the schedule begins after ", s.begin);
  const int64_t done = all_done - s.begin;
  if (s.kind == Schedule::Kind::one_cycle) {
    const Phase phase = one_cycle_phase(s, done);
    const double first = s.peak / s.div;
    return phase.warming ? cosine(first, s.peak, phase.fraction)
                         : cosine(s.peak, first / s.final_div, phase.fraction);
  }
  if (done < s.warmup)
    return s.warmup_start + (s.peak - s.warmup_start) * static_cast<double>(done + 1) /
                                static_cast<double>(s.warmup);
  const int64_t after = std::min(done, s.total - 1) - s.warmup;
  switch (s.kind) {
    case Schedule::Kind::step:
      return s.peak *
             std::pow(s.step_factor, static_cast<double>((done - s.warmup) / s.step_every));
    case Schedule::Kind::cosine: {
      const double length = static_cast<double>(std::max<int64_t>(s.total - 1 - s.warmup, 1));
      return cosine(s.peak, s.peak / s.final_div,
                    std::min(1.0, static_cast<double>(after) / length));
    }
    default:
      return s.peak;
  }
}

double momentum(const Schedule& s, int64_t done, double fixed) {
  if (s.kind != Schedule::Kind::one_cycle || !s.cycle_beta1) return fixed;
  check(s);
  BORA_CHECK(done >= s.begin, "momentum: ", done, " updates done, the schedule begins after ",
             s.begin);
  const Phase phase = one_cycle_phase(s, done - s.begin);
  return phase.warming ? cosine(s.beta1_high, s.beta1_low, phase.fraction)
                       : cosine(s.beta1_low, s.beta1_high, phase.fraction);
}

Schedule::Kind schedule_kind(const std::string& name) {
  if (name == "constant") return Schedule::Kind::constant;
  if (name == "step") return Schedule::Kind::step;
  if (name == "cosine") return Schedule::Kind::cosine;
  if (name == "one_cycle") return Schedule::Kind::one_cycle;
  throw UsageError("schedule '" + name + "': wanted constant, step, cosine or one_cycle");
}

}  // namespace bora::nn
