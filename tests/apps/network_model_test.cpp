// SPDX-License-Identifier: Apache-2.0
// The network model and the formulas of a scaling study on made-up times (feature 164).
#include "apps/bench/network_model.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace bora::bench {
namespace {

TEST(NetworkModel, EfficiencyByItsFormulas) {
  EXPECT_DOUBLE_EQ(weak_efficiency(2.0, 2.5), 0.8);
  EXPECT_DOUBLE_EQ(strong_efficiency(8.0, 2.5, 4), 0.8);
  EXPECT_DOUBLE_EQ(strong_efficiency(8.0, 8.0, 1), 1.0);
  EXPECT_THROW(weak_efficiency(0, 1), Error);
  EXPECT_THROW(strong_efficiency(1, 1, 0), Error);
}

TEST(NetworkModel, OneRankReducesNothing) {
  const Link link{1e-4, 1e8};
  EXPECT_EQ(all_reduce_s(1e6, 1, link, ReduceWay::ring), 0);
  EXPECT_EQ(bytes_a_rank(1e6, 1), 0);
}

TEST(NetworkModel, TimeIsRoundsTimesLatencyPlusBytesOverBandwidth) {
  const Link link{1e-3, 1e8};
  // 4 ranks: 2 rounds of agreement, 2 or 6 of data, 1.5 times the bytes.
  EXPECT_DOUBLE_EQ(all_reduce_s(1e6, 4, link, ReduceWay::exchange), 4e-3 + 1.5e-2);
  EXPECT_DOUBLE_EQ(all_reduce_s(1e6, 4, link, ReduceWay::ring), 8e-3 + 1.5e-2);
}

TEST(NetworkModel, TheFitFindsTheLinkThatMadeTheTimes) {
  const Link link{2e-4, 1.2e8};
  for (const int n : {2, 4, 7}) {
    std::vector<ReduceTime> times;
    for (const double bytes : {1e3, 1e5, 2e6, 2.5e7})
      times.push_back(
          {bytes, all_reduce_s(bytes, n, link, automatic_way(bytes)), automatic_way(bytes)});
    const Link found = fit_link(times, n);
    EXPECT_NEAR(found.latency_s, link.latency_s, 1e-9);
    EXPECT_NEAR(found.bytes_per_s, link.bytes_per_s, 1e2);
  }
  EXPECT_THROW(fit_link({{1e3, 1e-3}, {1e3, 1e-3}}, 2), Error);
  EXPECT_THROW(fit_link({{1e3, 0}, {1e4, 1e-3}}, 2), Error);
  EXPECT_THROW(fit_link({{1e3, 1e-3}, {1e6, 1e-3}}, 2), Error);
  // What a burst swallows at the start says nothing about the bandwidth.
  EXPECT_NEAR(fit_link({{1e3, 1e-5}, {1e6, 1e-4}, {1e7, 1e-1}, {2e7, 2e-1}}, 2).bytes_per_s, 1e8,
              1);
  // All of it is bandwidth: no negative latency.
  EXPECT_EQ(fit_link({{1e3, 0.9e-5}, {1e6, 1e-2}}, 2).latency_s, 0);
}

StepTimeline timeline() {
  return {.backward_end_s = 0.9, .step_s = 1.0, .buckets = {{0.5, 1e6}, {0.7, 2e7}, {0.9, 1e6}}};
}

TEST(NetworkModel, AFastLinkHidesEverything) {
  const StepPrediction p = predict_step(timeline(), 2, {0, 1e12});
  EXPECT_NEAR(p.step_s, 1.0, 1e-5);
  EXPECT_NEAR(p.efficiency, 1.0, 1e-5);
  EXPECT_LT(p.exposed_s, 1e-5);
}

TEST(NetworkModel, BucketsFollowEachOtherAndTheStepWaitsForTheLast) {
  // 2 ranks send as many bytes as a bucket has: 0.01, 0.2, 0.01 s.
  const StepPrediction p = predict_step(timeline(), 2, {0, 1e8});
  ASSERT_EQ(p.bucket_end_s.size(), 3U);
  EXPECT_DOUBLE_EQ(p.bucket_end_s[0], 0.51);
  EXPECT_DOUBLE_EQ(p.bucket_end_s[1], 0.90);
  EXPECT_DOUBLE_EQ(p.bucket_end_s[2], 0.91);
  EXPECT_NEAR(p.exposed_s, 0.01, 1e-12);
  EXPECT_NEAR(p.step_s, 1.01, 1e-12);
  EXPECT_NEAR(p.comm_s, 0.22, 1e-12);
}

TEST(NetworkModel, ASlowLinkGovernsTheStep) {
  const StepPrediction p = predict_step(timeline(), 2, {0, 1e7});
  EXPECT_NEAR(p.step_s, 0.7 + 2.1 + 0.1, 1e-12);  // from the second bucket on, then the update
  EXPECT_LT(p.efficiency, 0.4);
}

TEST(NetworkModel, WorkForTheNetworkDelaysBusyCores) {
  const Link link{0, 1e12, 1e-9};
  EXPECT_NEAR(predict_step(timeline(), 2, link).step_s, 1.0, 1e-4);
  EXPECT_NEAR(predict_step(timeline(), 2, link, true).step_s, 1.0 + 2.2e7 * 1e-9, 1e-4);
}

// The second bucket (0.2 s alone, ready at 0.7) moves at half speed until backward ends at 0.9.
TEST(NetworkModel, BusyCoresSlowTheNetwork) {
  const Link link{.latency_s = 0, .bytes_per_s = 1e8, .busy_rate = 0.5};
  const StepPrediction p = predict_step(timeline(), 2, link, true);
  EXPECT_DOUBLE_EQ(p.bucket_end_s[0], 0.52);
  EXPECT_DOUBLE_EQ(p.bucket_end_s[1], 1.0);
  EXPECT_DOUBLE_EQ(p.bucket_end_s[2], 1.01);
  EXPECT_NEAR(p.step_s, 1.11, 1e-12);
  EXPECT_NEAR(predict_step(timeline(), 2, link).step_s, 1.01, 1e-12);
}

TEST(NetworkModel, RefusesATimelineThatCannotBe) {
  EXPECT_THROW(predict_step({.backward_end_s = 2, .step_s = 1, .buckets = {}}, 2, {0, 1}), Error);
}

}  // namespace
}  // namespace bora::bench
