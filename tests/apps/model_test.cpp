// SPDX-License-Identifier: Apache-2.0
// UNet3d as spec'd: parameter counts, shapes, options (features 103-106, 108).
#include "apps/unet3d/model.hpp"

#include <gtest/gtest.h>

#include "core/allocator.hpp"
#include "nn/ops.hpp"
#include "nn/parameter_arena.hpp"
#include "tests/apps/device_under_test.hpp"
#include "tests/support/random.hpp"

namespace bora::unet3d {
namespace {

using bora::testing::device_under_test;

Tensor noise(const Shape& shape, DType type, uint64_t seed) {
  const RngKey key{seed, 5};
  std::vector<double> v(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = key.normal(i);
  return Tensor::from<double>(shape, v).to(type).to(device_under_test());
}

int64_t count(int64_t in, int64_t out, int64_t base) {
  UNet3d net(in, out, {.base = base});
  return nn::parameter_count(net);
}

// Feature 104.
TEST(UNet3d, HasTheSpecifiedParameterCounts) {
  EXPECT_EQ(count(1, 1, 8), 1358113);
  EXPECT_EQ(count(1, 1, 16), 5428801);
  EXPECT_EQ(count(1, 1, 32), 21707905);
  EXPECT_EQ(count(1, 1, 64), 86817025);
  EXPECT_EQ(count(3, 1, 16), 5428801 + 56 * 16);
}

// Feature 103: odd extents too; the smallest one that works is 16, 15 is refused with the needed
// size.
TEST(UNet3d, KeepsTheSpatialSize) {
  UNet3d net(1, 2, {.base = 4});
  nn::ParameterArena arena(net, DType::f32, device_under_test());
  nn::initialise(net, 0);
  const NoGrad no_grad;
  for (const Shape& shape :
       {Shape{1, 16, 16, 16, 1}, Shape{2, 17, 23, 19, 1}, Shape{1, 33, 16, 18, 1}}) {
    const Tensor y = net.forward(noise(shape, DType::f32, 1));
    EXPECT_EQ(y.shape(), shape.with(4, 2));
  }
  try {
    net.forward(noise({1, 16, 15, 16, 1}, DType::f32, 1));
    FAIL() << "15 was taken";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("at least 16"), std::string::npos) << e.what();
  }
  EXPECT_THROW(net.forward(noise({1, 16, 16, 16, 2}, DType::f32, 1)), Error);
}

// Feature 106: the projection exists exactly where the channel count changes.
TEST(UNet3d, ProjectsOnlyWhereChannelsChange) {
  ResConvBlock same(8, 8, {}), different(8, 16, {});
  const auto has_shortcut = [](ResConvBlock& block) {
    for (const auto& p : nn::named_parameters(block))
      if (p.name == "shortcut.weight") return true;
    return false;
  };
  EXPECT_FALSE(has_shortcut(same));
  EXPECT_TRUE(has_shortcut(different));
}

std::vector<double> gradients(const ModelConfig& config, DType type, double* loss,
                              int64_t* peak = nullptr, std::vector<double>* statistics = nullptr) {
  UNet3d net(1, 1, config);
  nn::ParameterArena arena(net, type, device_under_test());
  nn::initialise(net, 4);
  const Shape shape{1, 34, 40, 37, 1};
  const Tensor x = noise(shape, type, 2), t = noise(shape, type, 3);
  caching_allocator(device_under_test()).reset_peak();
  const int64_t before = caching_allocator(device_under_test()).stats().live;
  const RngScope rng(RngPosition{.seed = 9});
  const Tensor y = nn::data_loss(net.forward(x), t, {}, nn::DataLoss::mse);
  *loss = y.item();
  backward(y);
  if (statistics)
    for (const nn::NamedBuffer& b : nn::named_buffers(net))
      for (const double v : b.buffer->to(cpu()).to(DType::f64).to_vector<double>())
        statistics->push_back(v);
  if (peak) *peak = caching_allocator(device_under_test()).stats().peak - before;
  EXPECT_TRUE(arena.missing_gradients().empty());
  return arena.gradients().all().to(cpu()).to(DType::f64).to_vector<double>();
}

// Feature 108: recompute gives the same bits for less memory, also with dropout.
TEST(UNet3d, RecomputeGivesTheSameBitsForLessMemory) {
  for (const double dropout : {0.0, 0.25}) {
    double plain_loss = 0, again_loss = 0;
    int64_t plain_peak = 0, again_peak = 0;
    const auto plain =
        gradients({.base = 4, .dropout = dropout}, DType::f32, &plain_loss, &plain_peak);
    const auto again = gradients({.base = 4, .dropout = dropout, .recompute = true}, DType::f32,
                                 &again_loss, &again_peak);
    EXPECT_EQ(plain_loss, again_loss);
    EXPECT_EQ(plain, again);
    EXPECT_LT(again_peak, plain_peak * 3 / 4);
  }
}

// Feature 108 with batch norms: blocks run twice, their running statistics move once a step.
TEST(UNet3d, RecomputeUpdatesRunningStatisticsOnce) {
  for (const char* norm : {"batch", "sync_batch"}) {
    double plain_loss = 0, again_loss = 0;
    std::vector<double> plain_statistics, again_statistics;
    const auto plain =
        gradients({.base = 4, .norm = norm}, DType::f32, &plain_loss, nullptr, &plain_statistics);
    const auto again = gradients({.base = 4, .norm = norm, .recompute = true}, DType::f32,
                                 &again_loss, nullptr, &again_statistics);
    EXPECT_EQ(plain_loss, again_loss) << norm;
    EXPECT_EQ(plain, again) << norm;
    EXPECT_EQ(plain_statistics, again_statistics) << norm;
    EXPECT_GT(plain_statistics.size(), 0u);
  }
}

// Feature 107 for the network as a whole: a directional derivative by central differences in f64,
// for every kind of norm and upsampling.  At h = 1e-5 the truncation error is O(h^2) of the third
// derivative, rounding is 1e-16 / h: about 1e-10 in sum, amplified by the depth; a wrong backward
// is off by far more than 1e-6.
TEST(UNet3d, GradientMatchesCentralDifferences) {
  for (const char* norm : {"group", "instance", "batch"}) {
    for (const char* up : {"trilinear", "transposed"}) {
      UNet3d net(1, 1, {.base = 2, .levels = 2, .norm = norm, .up = up});
      nn::ParameterArena arena(net, DType::f64, device_under_test());
      nn::initialise(net, 4);
      const Shape shape{2, 6, 5, 7, 1};
      const Tensor x = noise(shape, DType::f64, 2), t = noise(shape, DType::f64, 3);
      const auto loss = [&] {
        return nn::data_loss(net.forward(x), t, {}, nn::DataLoss::charbonnier, 0.5);
      };
      backward(loss());
      Tensor& values = arena.values().all();
      const std::vector<double> g = arena.gradients().all().to_vector<double>();
      const std::vector<double> start = values.to_vector<double>();
      const RngKey key{7, 7};
      double expected = 0;
      const auto shifted = [&](double h) {
        std::vector<double> moved = start;
        for (size_t i = 0; i < start.size(); ++i) moved[i] += h * key.normal(i);
        values.copy_from(Tensor::from<double>(values.shape(), moved));
        const NoGrad no_grad;
        return loss().item();
      };
      for (size_t i = 0; i < g.size(); ++i) expected += g[i] * key.normal(i);
      const double h = 1e-5;
      const double measured = (shifted(h) - shifted(-h)) / (2 * h);
      EXPECT_NEAR(measured / expected, 1.0, 1e-6) << norm << " " << up;
    }
  }
}

// The decoder runs its 1x1x1 convolution before the interpolation; the definition has it after.
TEST(UNet3d, ConvolutionBeforeUpsamplingIsTheSameFunction) {
  auto conv = nn::Conv3d::linear_gain(6, 3, Dims3::all(1), nn::Bias::yes);
  nn::ParameterArena arena(conv, DType::f64, device_under_test());
  nn::initialise(conv, 11);
  const Tensor x = noise({2, 3, 4, 2, 6}, DType::f64, 5);
  const NoGrad no_grad;
  for (const Dims3 size : {Dims3{6, 8, 4}, Dims3{7, 9, 5}, Dims3{3, 4, 2}}) {
    const auto cheap = nn::upsample_trilinear(conv.forward(x), size).to_vector<double>();
    const auto defined = conv.forward(nn::upsample_trilinear(x, size)).to_vector<double>();
    ASSERT_EQ(cheap.size(), defined.size());
    for (size_t i = 0; i < cheap.size(); ++i) EXPECT_NEAR(cheap[i], defined[i], 1e-13);
  }
}

}  // namespace
}  // namespace bora::unet3d
