// SPDX-License-Identifier: Apache-2.0
// From settings to objects.
#include "apps/train/setup.hpp"

#include <gtest/gtest.h>

#include "comm/algorithm.hpp"

namespace bora::train {
namespace {

// Feature 126: off by default; linear multiplies by the ranks, with a warm-up from one rank's rate.
TEST(ScheduleOf, LinearRuleMultipliesByTheRanks) {
  OptimConfig c;
  c.lr = 0.1;
  c.schedule = "constant";
  EXPECT_EQ(schedule_of(c, 100, 8).peak, 0.1);
  c.scale_lr = "linear";
  EXPECT_THROW(schedule_of(c, 100, 1), UsageError) << "no warm-up";
  c.warmup = 10;
  const nn::Schedule s = schedule_of(c, 100, 8);
  EXPECT_DOUBLE_EQ(s.peak, 0.8);
  EXPECT_DOUBLE_EQ(nn::learning_rate(s, 0), 0.1 + 0.07);
  EXPECT_DOUBLE_EQ(nn::learning_rate(s, 50), 0.8);
  EXPECT_DOUBLE_EQ(nn::learning_rate(schedule_of(c, 100, 1), 0), 0.1) << "one rank: no change";
  c.schedule = "one_cycle";
  EXPECT_DOUBLE_EQ(schedule_of(c, 100, 4).peak, 0.4);
}

TEST(Settings, TheWaysOfAnAllReductionAreThoseThatThereAre) {
  const auto& ways = all_reduce_algorithms();
  ASSERT_EQ(apps::kAllReduceChoices.n, ways.size());
  for (size_t i = 0; i < apps::kAllReduceChoices.n; ++i)
    EXPECT_NO_THROW(all_reduce_algorithm(apps::kAllReduceChoices.choices[i]));
}

}  // namespace
}  // namespace bora::train
