// SPDX-License-Identifier: Apache-2.0
// The stage "training" on what this build has, and that it can fail.
#include <gtest/gtest.h>

#include "apps/gpucheck/stages.hpp"

namespace bora::gpucheck {
namespace {

StageOptions options() {
  StageOptions o;
  o.target = find_target("auto");
  if (o.target.kind == Target::Kind::none) o.target = find_target("cpu");
  o.tiny = true;
  return o;
}

TEST(TrainingStage, PassesOnThisBuildsDevice) {
  const Stage stage = training_stage(options());
  EXPECT_EQ(stage.status, Status::passed);
  EXPECT_GE(stage.checks.size(), 9u);
  for (const Check& c : stage.checks)
    EXPECT_TRUE(c.pass) << c.op << ' ' << c.dtype << ": " << c.note;
}

TEST(TrainingStage, FailsWithAnyOfItsChecks) {
  StageOptions o = options();
  o.plant = "an overflow skips the update and halves the scale";
  o.only = "overflow";
  const Stage stage = training_stage(o);
  EXPECT_EQ(stage.status, Status::failed);
}

}  // namespace
}  // namespace bora::gpucheck
