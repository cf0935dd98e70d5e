// SPDX-License-Identifier: Apache-2.0
// Rows of a scaling study on made-up times (features 164, 165).
#include "apps/bench/scaling.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace bora::bench {
namespace {

ScalingRow job(int ranks, const std::string& mode, std::vector<double> step_ms) {
  ScalingRow r;
  r.ranks = ranks;
  r.hosts = ranks;
  r.mode = mode;
  r.network = "unet3d";
  r.precision = "fp32";
  r.all_reduce = "auto";
  r.base = 16;
  r.size = "64x64x64";
  r.batch = mode == "weak" ? 2 : 8 / ranks;
  r.global_batch = mode == "weak" ? 2 * ranks : 8;
  r.step_ms = std::move(step_ms);
  r.compute_ms = 90;
  r.exposed_ms = 5;
  r.link = {1e-5, 1e9, 2.5e-10};
  r.timeline = {.backward_end_s = 0.08, .step_s = 0.09, .buckets = {{0.03, 1e6}, {0.08, 2e7}}};
  return r;
}

TEST(Scaling, ARowSurvivesItsFile) {
  const ScalingRow r = job(4, "strong", {100, 110, 90});
  const ScalingRow q = scaling_row(to_json(r));
  EXPECT_EQ(data::json_line(to_json(q)), data::json_line(to_json(r)));
  EXPECT_EQ(q.setting(), r.setting());
  EXPECT_EQ(q.timeline.buckets.size(), 2U);
  EXPECT_DOUBLE_EQ(q.median_ms(), 100);
  EXPECT_DOUBLE_EQ(q.samples_per_s(), 80);
}

TEST(Scaling, AForeignLineIsNamed) {
  data::JsonRecord record = to_json(job(1, "weak", {1}));
  record.erase(record.begin() + 1);
  try {
    scaling_row(record);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("'ranks'"), std::string::npos) << e.what();
  }
  EXPECT_THROW(scaling_row({{"kind", "step"}}), Error);
}

TEST(Scaling, EfficiencyIsHeldAgainstOneRankOfTheSameSetting) {
  const std::vector<StudyRow> rows = study_of(
      {job(2, "weak", {125}), job(1, "weak", {90}), job(1, "weak", {100}), job(1, "weak", {110}),
       job(4, "weak", {200}), job(1, "strong", {400}), job(4, "strong", {125})});
  ASSERT_EQ(rows.size(), 5U);
  // Ordered by setting, then ranks: strong before weak.
  EXPECT_EQ(rows[0].job.mode, "strong");
  EXPECT_DOUBLE_EQ(rows[0].efficiency, 1.0);
  EXPECT_DOUBLE_EQ(rows[1].efficiency, 400.0 / (4 * 125));
  EXPECT_EQ(rows[2].job.ranks, 1);
  EXPECT_EQ(rows[2].repeats, 3);
  EXPECT_DOUBLE_EQ(rows[2].step_ms, 100);
  EXPECT_DOUBLE_EQ(rows[2].low_ms, 90);
  EXPECT_DOUBLE_EQ(rows[2].high_ms, 110);
  EXPECT_DOUBLE_EQ(rows[3].efficiency, 0.8);
  EXPECT_DOUBLE_EQ(rows[4].efficiency, 0.5);
  EXPECT_DOUBLE_EQ(rows[4].samples_per_s, 40);
}

TEST(Scaling, WithoutAJobOfOneRankThereIsNoEfficiency) {
  EXPECT_EQ(study_of({job(2, "weak", {125})}).front().efficiency, 0);
}

}  // namespace
}  // namespace bora::bench
