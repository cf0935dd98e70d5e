// SPDX-License-Identifier: Apache-2.0
#include "nn/optim/schedule.hpp"

#include "core/error.hpp"

namespace bora::nn {

void check_schedule(const Schedule& s) {
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

double learning_rate(const Schedule& s, int64_t done) {
  check_schedule(s);
  BORA_CHECK(done >= s.begin, "learning_rate: ", done, " updates done, the schedule begins after ",
             s.begin);
  return kernels::scheduled_rate(s, done);
}

double momentum(const Schedule& s, int64_t done, double fixed) {
  if (s.kind != Schedule::Kind::one_cycle || !s.cycle_beta1) return fixed;
  check_schedule(s);
  BORA_CHECK(done >= s.begin, "momentum: ", done, " updates done, the schedule begins after ",
             s.begin);
  return kernels::scheduled_beta1(s, done, fixed);
}

Schedule::Kind schedule_kind(const std::string& name) {
  if (name == "constant") return Schedule::Kind::constant;
  if (name == "step") return Schedule::Kind::step;
  if (name == "cosine") return Schedule::Kind::cosine;
  if (name == "one_cycle") return Schedule::Kind::one_cycle;
  throw UsageError("schedule '" + name + "': wanted constant, step, cosine or one_cycle");
}

}  // namespace bora::nn
