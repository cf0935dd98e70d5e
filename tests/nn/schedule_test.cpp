// SPDX-License-Identifier: Apache-2.0
// Schedules as pure functions (features 54, 125, 143).
#include "nn/optim/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "core/error.hpp"

namespace bora::nn {
namespace {

// Feature 125: 4e-5 -> 1e-3 at step 0.3 T - 1 -> 4e-9 at T - 1; step T + 1 is defined.
TEST(Schedule, OneCycleHitsItsThreePointsAndHoldsAfterTheEnd) {
  const Schedule s{.peak = 1e-3, .total = 1000};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 4e-5);
  EXPECT_DOUBLE_EQ(learning_rate(s, 299), 1e-3);
  EXPECT_NEAR(learning_rate(s, 999), 4e-9, 1e-21);
  EXPECT_EQ(learning_rate(s, 1000), learning_rate(s, 999));
  EXPECT_EQ(learning_rate(s, 1001), learning_rate(s, 999));
}

// Row 143: a schedule after an earlier one is the same curve, later.
TEST(Schedule, BeginMovesTheWholeCurve) {
  using Kind = Schedule::Kind;
  for (const Kind kind : {Kind::constant, Kind::step, Kind::cosine, Kind::one_cycle}) {
    const Schedule s{.kind = kind, .peak = 1e-3, .total = 40, .warmup = 5, .step_every = 7};
    Schedule later = s;
    later.begin = 100;
    for (int64_t t = 0; t < 50; ++t) {
      EXPECT_EQ(learning_rate(later, 100 + t), learning_rate(s, t)) << t;
      EXPECT_EQ(momentum(later, 100 + t, 0.9), momentum(s, t, 0.9)) << t;
    }
    EXPECT_THROW(learning_rate(later, 99), Error);
  }
  EXPECT_THROW(learning_rate({.begin = -1}, 0), Error);
  EXPECT_THROW(momentum({.begin = 3}, 2, 0.9), Error);
}

TEST(Schedule, OneCycleFollowsTheCosineBetweenItsPoints) {
  const Schedule s{.peak = 1e-3, .total = 1000};
  for (int64_t t : {1, 77, 150, 298}) {
    const double f = static_cast<double>(t) / 299.0;
    EXPECT_NEAR(learning_rate(s, t),
                1e-3 + (4e-5 - 1e-3) * 0.5 * (1 + std::cos(std::numbers::pi * f)), 1e-15);
  }
  for (int64_t t : {300, 500, 998}) {
    const double f = (static_cast<double>(t) - 299.0) / (999.0 - 299.0);
    EXPECT_NEAR(learning_rate(s, t),
                4e-9 + (1e-3 - 4e-9) * 0.5 * (1 + std::cos(std::numbers::pi * f)), 1e-15);
  }
}

TEST(Schedule, OneCycleRisesThenFallsWithoutAJump) {
  for (int64_t total : {10, 33, 100, 1001}) {
    const Schedule s{.peak = 1.0, .total = total};
    double last = learning_rate(s, 0);
    bool falling = false;
    for (int64_t t = 1; t < total; ++t) {
      const double now = learning_rate(s, t);
      if (now < last) falling = true;
      if (falling) {
        EXPECT_LE(now, last) << total << " " << t;
      }
      last = now;
    }
    EXPECT_TRUE(falling) << total;
  }
}

TEST(Schedule, Beta1MovesAgainstTheRateAndCanBeFixed) {
  Schedule s{.peak = 1e-3, .total = 1000};
  EXPECT_DOUBLE_EQ(momentum(s, 0, 0.9), 0.95);
  EXPECT_DOUBLE_EQ(momentum(s, 299, 0.9), 0.85);
  EXPECT_DOUBLE_EQ(momentum(s, 999, 0.9), 0.95);
  s.cycle_beta1 = false;
  EXPECT_EQ(momentum(s, 299, 0.9), 0.9);
  s.kind = Schedule::Kind::constant;
  s.cycle_beta1 = true;
  EXPECT_EQ(momentum(s, 299, 0.9), 0.9);
}

TEST(Schedule, ConstantStepAndCosineAreWhatTheyAreCalled) {
  Schedule s{.kind = Schedule::Kind::constant, .peak = 2.0, .total = 100};
  EXPECT_EQ(learning_rate(s, 0), 2.0);
  EXPECT_EQ(learning_rate(s, 500), 2.0);
  s.warmup = 4;
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(s, 3), 2.0);
  s = {.kind = Schedule::Kind::step,
       .peak = 1.0,
       .total = 100,
       .step_every = 10,
       .step_factor = 0.5};
  EXPECT_DOUBLE_EQ(learning_rate(s, 9), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(s, 10), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(s, 35), 0.125);
  s = {.kind = Schedule::Kind::cosine, .peak = 1.0, .total = 101, .final_div = 100};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 1.0);
  EXPECT_NEAR(learning_rate(s, 50), 0.505, 1e-12);
  EXPECT_NEAR(learning_rate(s, 100), 0.01, 1e-12);
  EXPECT_EQ(learning_rate(s, 1000), learning_rate(s, 100));
}

TEST(Schedule, RefusesSettingsThatCannotBe) {
  EXPECT_THROW(learning_rate({.total = 0}, 0), Error);
  EXPECT_THROW(learning_rate({.total = 10}, -1), Error);
  EXPECT_THROW(learning_rate({.total = 10, .warm_fraction = 1.5}, 0), Error);
  EXPECT_THROW(schedule_kind("onecycle"), UsageError);
  EXPECT_EQ(schedule_kind("one_cycle"), Schedule::Kind::one_cycle);
}

// A run of one update, or one too short to warm up, still has a rate.
TEST(Schedule, ShortRunsAreDefined) {
  for (int64_t total : {1, 2, 3, 4}) {
    const Schedule s{.peak = 1.0, .total = total};
    for (int64_t t = 0; t < total + 2; ++t) {
      const double lr = learning_rate(s, t);
      EXPECT_TRUE(std::isfinite(lr) && lr >= 0 && lr <= 1.0) << total << " " << t;
    }
  }
}

// Feature 126: warm-up from the rate of one rank to that of all.
TEST(Schedule, WarmupStartsWhereItIsTold) {
  Schedule s{.kind = Schedule::Kind::constant,
             .peak = 0.8,
             .total = 100,
             .warmup = 10,
             .warmup_start = 0.2};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0.26);
  EXPECT_DOUBLE_EQ(learning_rate(s, 4), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(s, 9), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(s, 10), 0.8);
  s.warmup_start = 0.9;
  EXPECT_THROW(learning_rate(s, 0), Error);
}

}  // namespace
}  // namespace bora::nn
