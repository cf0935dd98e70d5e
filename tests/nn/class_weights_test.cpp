// SPDX-License-Identifier: Apache-2.0
// What the class losses refuse: labels that are no class, weights of cells that cannot be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "nn/ops.hpp"
#include "tests/support/device.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/random.hpp"

namespace bora::test {
namespace {

using bora::testing::message_of;
using ::testing::HasSubstr;

struct Cells {
  Tensor logits = make_tensor({1, 1, 2, 2, 3}, normal_values(12, 1), DType::f32);
  Tensor labels = make_tensor({1, 1, 2, 2}, {0, 1, 2, 1}, DType::u8);
  Tensor weights(double last) const {
    return make_tensor({1, 1, 2, 2}, {1.0, 0.0, 0.5, last}, DType::f32);
  }
};

// On a device the loss is NaN instead: reading the sums there would stall the step.
void expect_refused(const Tensor& logits, const Tensor& labels, const Tensor& weights,
                    const std::string& message) {
  const auto run = [&] { return nn::dice_cross_entropy(logits, labels, {}, {}, weights); };
  if (logits.device().type == DeviceType::cpu)
    EXPECT_THAT(message_of(run), HasSubstr(message));
  else
    EXPECT_TRUE(std::isnan(run().item()));
}

TEST(ClassWeights, AWeightThatIsNegativeOrNotFiniteIsRefused) {
  const Cells c;
  expect_refused(c.logits, c.labels, c.weights(-0.25), "the weight of cell 3 is -0.25");
  expect_refused(c.logits, c.labels, c.weights(NAN), "the weight of cell 3 is nan");
  expect_refused(c.logits, c.labels, c.weights(HUGE_VAL), "the weight of cell 3 is inf");
  EXPECT_TRUE(
      std::isfinite(nn::dice_cross_entropy(c.logits, c.labels, {}, {}, c.weights(0.25)).item()));
}

TEST(ClassWeights, ALabelThatIsNoClassIsRefusedWhereItHasWeight) {
  const Cells c;
  const Tensor bad = make_tensor({1, 1, 2, 2}, {0, 9, 2, 1}, DType::u8);  // weight 0
  EXPECT_TRUE(std::isfinite(nn::cross_entropy(c.logits, bad, {}, c.weights(1)).item()));
  const Tensor worse = make_tensor({1, 1, 2, 2}, {0, 1, 2, 9}, DType::u8);
  expect_refused(c.logits, worse, c.weights(1), "a label of sample 0 is not below the number");
}

TEST(ClassWeights, WeightsOfAnotherShapeOrTypeAreRefused) {
  const Cells c;
  const auto with = [&](const Tensor& w) {
    return [&, w] { return nn::cross_entropy(c.logits, c.labels, {}, w); };
  };
  EXPECT_THAT(message_of(with(full({1, 2, 2}, 1, DType::f32))),
              HasSubstr("weights are (1, 2, 2) f32"));
  EXPECT_THAT(message_of(with(full({1, 1, 2, 2}, 1, DType::f64))),
              HasSubstr("wanted (1, 1, 2, 2) f32"));
}

}  // namespace
}  // namespace bora::test
