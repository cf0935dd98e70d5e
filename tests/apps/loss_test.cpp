// SPDX-License-Identifier: Apache-2.0
// The trainer's loss: its parts and their names (feature 111).
#include "apps/unet3d/loss.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/profile.hpp"
#include "core/rng.hpp"
#include "core/tape.hpp"
#include "nn/parameter_arena.hpp"
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

Tensor noise(const Shape& shape, uint64_t seed) {
  const RngKey key{seed, 8};
  Tensor t = Tensor::empty(shape, DType::f32);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = key.normal(static_cast<uint64_t>(i));
  return t.to(device_under_test());
}

bool ran(const std::vector<RangeTotal>& totals, const std::string& op) {
  for (const RangeTotal& t : totals)
    if (t.name == op) return true;
  return false;
}

// On a device head and loss are one op where nothing else wants the prediction.  Either way the
// loss and its gradients are those of the two in turn.
TEST(CombinedLoss, OfAModelIsThatOfItsPrediction) {
  const Tensor x = noise({2, 4, 6, 5, 1}, 1), t = noise({2, 4, 6, 5, 1}, 2);
  Tensor region = Tensor::full({2, 4, 6, 5}, 1.0, DType::u8);
  for (int64_t i = 0; i < region.numel(); i += 3) region.data<uint8_t>()[i] = 0;
  region = region.to(device_under_test());
  for (const double lambda : {0.0, 0.1}) {
    SCOPED_TRACE(lambda);
    const LossConfig config{.gradient_weight = lambda};
    UNet3d net(1, 1, {.base = 8, .levels = 1});
    nn::ParameterArena arena(net, DType::f32, DType::f32, device_under_test());
    nn::initialise(net, 4);
    const auto gradients = [&](const Loss& loss) {
      arena.clear_gradients();
      backward(loss.total);
      return arena.gradients().all().to_vector<float>();
    };
    const Loss apart = compute_loss(config, net.forward(x), t, region);
    const std::vector<float> want = gradients(apart);
    profile_enable(true);
    const Loss joined = compute_loss(config, net, x, t, region);
    const bool fused = ran(profile_totals(), "head_data_loss");
    profile_enable(false);
    EXPECT_EQ(fused, lambda == 0.0 && device_under_test() != cpu());
    ASSERT_EQ(joined.parts.size(), apart.parts.size());
    for (size_t i = 0; i < joined.parts.size(); ++i) {
      EXPECT_EQ(joined.parts[i].first, apart.parts[i].first);
      EXPECT_NEAR(joined.value(i), apart.value(i), 1e-5 * std::abs(apart.value(i)));
    }
    const std::vector<float> got = gradients(joined);
    double distance = 0, size = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      distance += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
      size += std::pow(static_cast<double>(want[i]), 2);
    }
    EXPECT_GT(size, 0.0);
    EXPECT_LT(std::sqrt(distance / size), 1e-4);  // roundings of f32 through some ten layers
  }
}

}  // namespace
}  // namespace bora::unet3d
