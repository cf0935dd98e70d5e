// SPDX-License-Identifier: Apache-2.0
// The trainer's loss: its parts and their names (feature 111).
#include "apps/unet3d/loss.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/tape.hpp"
#include "tests/apps/device_under_test.hpp"

namespace bora::unet3d {
namespace {

using bora::testing::device_under_test;

Tensor ramp(double slope) {
  Tensor t = Tensor::empty({1, 4, 3, 2, 1}, DType::f32);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<float>()[i] = static_cast<float>(slope * static_cast<double>(i / 6));
  return t.to(device_under_test());
}

TEST(CombinedLoss, LambdaZeroIsTheDataLossAlone) {
  const Loss loss = compute_loss({.kind = "mse", .gradient_weight = 0.0}, ramp(1), ramp(0), {});
  ASSERT_EQ(loss.parts.size(), 2u);
  EXPECT_EQ(loss.parts[0].first, "loss");
  EXPECT_EQ(loss.parts[1].first, "mse");
  EXPECT_EQ(loss.value(0), loss.value(1));
  EXPECT_NEAR(loss.value(1), (0.0 + 1 + 4 + 9) / 4, 1e-6);
}

TEST(CombinedLoss, IsTheSumOfItsNamedParts) {
  for (const char* form : {"plain", "inverse", "edge"}) {
    const LossConfig config{.kind = "mae", .gradient_weight = 0.25, .gradient = form};
    const Loss loss = compute_loss(config, ramp(1), ramp(0.5), {});
    ASSERT_EQ(loss.parts.size(), 3u);
    EXPECT_EQ(loss.parts[1].first, "mae");
    EXPECT_EQ(loss.parts[2].first, std::string("gradient_") + form);
    EXPECT_NEAR(loss.value(0), loss.value(1) + 0.25 * loss.value(2), 1e-6);
    std::vector<std::string> names;
    for (const auto& [name, value] : loss.parts) names.push_back(name);
    EXPECT_EQ(names, loss_names(config));
  }
}

// Charbonnier is not called MSE, and each unknown name is refused with the list.
TEST(CombinedLoss, NamesAreHonest) {
  const Loss loss = compute_loss({}, ramp(1), ramp(1), {});
  EXPECT_EQ(loss.parts[1].first, "charbonnier");
  EXPECT_NEAR(loss.value(1), 1e-3, 1e-7);
  EXPECT_THROW(compute_loss({.kind = "huber"}, ramp(1), ramp(1), {}), UsageError);
  EXPECT_THROW(compute_loss({.gradient = "sobel"}, ramp(1), ramp(1), {}), UsageError);
}

TEST(CombinedLoss, SendsItsGradientToThePrediction) {
  const Tensor p = make_leaf(ramp(1), "prediction");
  backward(compute_loss({.kind = "mae"}, p, ramp(0), {}).total);
  double sum = 0;
  for (const float g : leaf_of(p).gradient().to_vector<float>()) sum += static_cast<double>(g);
  // mae: 18 of 24 cells above the target push up by 1/24 each; the gradient loss moves no constant.
  EXPECT_NEAR(sum, 18.0 / 24.0, 1e-6);
}

}  // namespace
}  // namespace bora::unet3d
