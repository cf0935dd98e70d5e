// SPDX-License-Identifier: Apache-2.0
#include "core/profile.hpp"

#include <gtest/gtest.h>

#include <map>
#include <thread>

namespace bora {
namespace {

void spin(double seconds) {
  const double end = now_s() + seconds;
  while (now_s() < end) {
  }
}

std::map<std::string, RangeTotal> totals() {
  std::map<std::string, RangeTotal> out;
  for (const RangeTotal& t : profile_totals()) out[t.name] = t;
  return out;
}

class ProfileTest : public testing::Test {
 protected:
  void SetUp() override { profile_enable(true); }
  void TearDown() override { profile_enable(false); }
};

TEST_F(ProfileTest, SelfTimeExcludesInnerRanges) {
  const double begin = now_s();
  {
    const ScopedRange outer("outer");
    spin(0.004);
    for (int i = 0; i < 2; ++i) {
      const ScopedRange inner("inner");
      spin(0.01);
    }
  }
  const double wall = now_s() - begin;
  auto t = totals();
  ASSERT_EQ(t.size(), 2u);
  EXPECT_EQ(t["outer"].count, 1);
  EXPECT_EQ(t["inner"].count, 2);
  EXPECT_GE(t["inner"].total_s, 0.02);
  EXPECT_GE(t["outer"].self_s, 0.004);
  EXPECT_LE(t["outer"].total_s, wall);
  EXPECT_DOUBLE_EQ(t["inner"].self_s, t["inner"].total_s);
  // What is left of the outer range is exactly its own.
  EXPECT_NEAR(t["outer"].self_s, t["outer"].total_s - t["inner"].total_s, 1e-9);
}

TEST_F(ProfileTest, ThreeLevelsSubtractOnlyTheirChildren) {
  {
    const ScopedRange a("a");
    const ScopedRange b("b");
    const ScopedRange c("c");
    spin(0.002);
  }
  auto t = totals();
  EXPECT_NEAR(t["a"].self_s, t["a"].total_s - t["b"].total_s, 1e-9);
  EXPECT_NEAR(t["b"].self_s, t["b"].total_s - t["c"].total_s, 1e-9);
  EXPECT_GE(t["c"].self_s, 0.002);
}

TEST_F(ProfileTest, LargestSelfTimeComesFirst) {
  { const ScopedRange small("small"); }
  {
    const ScopedRange large("large");
    spin(0.003);
  }
  ASSERT_EQ(profile_totals().size(), 2u);
  EXPECT_EQ(profile_totals()[0].name, "large");
}

TEST_F(ProfileTest, OffCollectsNothingAndEnableForgets) {
  { const ScopedRange a("a"); }
  profile_enable(true);
  EXPECT_TRUE(profile_totals().empty());
  profile_enable(false);
  EXPECT_FALSE(profile_enabled());
  { const ScopedRange a("a"); }
  EXPECT_TRUE(profile_totals().empty());
}

TEST_F(ProfileTest, WorkBelongsToTheInnermostRange) {
  profile_add_work(1000, 1000);  // outside of any range: nobody's
  for (int i = 0; i < 2; ++i) {
    const ScopedRange outer("outer");
    profile_add_work(1, 20);
    {
      const ScopedRange inner("inner");
      profile_add_work(300, 0);
      profile_add_work(4, 5000);
    }
    profile_add_work(10, 0);
  }
  auto t = totals();
  EXPECT_EQ(t["outer"].flops, 22);
  EXPECT_EQ(t["outer"].bytes, 40);
  EXPECT_EQ(t["inner"].flops, 608);
  EXPECT_EQ(t["inner"].bytes, 10000);
  profile_enable(false);
  const ScopedRange off("off");
  profile_add_work(1, 1);
  EXPECT_TRUE(profile_totals().empty());
}

TEST_F(ProfileTest, IsPerThread) {
  std::thread([] {
    EXPECT_FALSE(profile_enabled());
    const ScopedRange a("elsewhere");
  }).join();
  EXPECT_TRUE(profile_totals().empty());
}

}  // namespace
}  // namespace bora
