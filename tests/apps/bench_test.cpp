// SPDX-License-Identifier: Apache-2.0
// The measuring tools: the second network, the list of convolutions, the arithmetic of the report.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "apps/bench/convolutions.hpp"
#include "apps/bench/machine_peak.hpp"
#include "apps/bench/plain_unet.hpp"
#include "apps/bench/report.hpp"
#include "comm/communicator.hpp"
#include "kernels/conv3d.hpp"
#include "nn/ops.hpp"
#include "nn/parameter_arena.hpp"
#include "tests/support/random.hpp"

namespace bora::bench {
namespace {

// 27 * 59408 weights of the k3 convolutions at base 16 + 16 of the head + 817 biases + 1408 of the
// norms; unet3d_torch.py counts the same.
TEST(PlainUnet, HasTheParametersOfItsTwin) {
  PlainUnet b16(1, 1, 16), b32(1, 1, 32);
  EXPECT_EQ(nn::parameter_count(b16), 1606257);
  EXPECT_EQ(nn::parameter_count(b32), 6419681);
}

TEST(PlainUnet, KeepsTheSpatialSizeAndRefusesTooSmallOnes) {
  PlainUnet net(1, 2, 8);
  nn::ParameterArena arena(net, DType::f32);
  nn::initialise(net, 0);
  const NoGrad no_grad;
  EXPECT_EQ(net.forward(Tensor::full({2, 9, 8, 13, 1}, 0.5, DType::f32)).shape(),
            (Shape{2, 9, 8, 13, 2}));
  EXPECT_THROW(net.forward(Tensor::zeros({1, 8, 7, 8, 1}, DType::f32)), Error);
  EXPECT_THROW(net.forward(Tensor::zeros({1, 8, 8, 8, 2}, DType::f32)), Error);
}

// A directional derivative by central differences in f64; truncation is O(h^2) = 1e-10, a ReLU that
// changes sides within h adds O(h) of one element among thousands.
TEST(PlainUnet, GradientMatchesCentralDifferences) {
  PlainUnet net(1, 1, 2);
  nn::ParameterArena arena(net, DType::f64);
  nn::initialise(net, 3);
  const RngKey key{5, 5};
  const Shape shape{1, 8, 9, 8, 1};
  std::vector<double> noise(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = key.normal(i);
  const Tensor x = Tensor::from<double>(shape, noise), t = Tensor::zeros(shape, DType::f64);
  const auto loss = [&] { return nn::data_loss(net.forward(x), t, {}, nn::DataLoss::mse); };
  backward(loss());
  EXPECT_TRUE(arena.missing_gradients().empty());
  const std::vector<double> g = arena.gradients().all().to_vector<double>();
  const std::vector<double> start = arena.values().all().to_vector<double>();
  const auto shifted = [&](double h) {
    for (size_t i = 0; i < start.size(); ++i)
      arena.values().all().data<double>()[i] = start[i] + h * key.normal(i);
    const NoGrad no_grad;
    return loss().item();
  };
  double expected = 0;
  for (size_t i = 0; i < g.size(); ++i) expected += g[i] * key.normal(i);
  const double h = 1e-6;
  EXPECT_NEAR((shifted(h) - shifted(-h)) / (2 * h) / expected, 1.0, 1e-5);
}

// The list is written down beside the networks: what ops really did must agree to the last
// operation.
TEST(Convolutions, ListHasTheArithmeticOfTheStep) {
  const auto ranks = make_self_communicator();
  for (const char* network : {"unet3d", "plain"}) {
    StepConfig config;
    config.network = network;
    config.model.base = 4;
    config.size = {19, 16, 22};
    config.batch = 2;
    Step step(config, *ranks);
    profile_enable(true);
    step.run();
    double flops = 0;
    for (const RangeTotal& r : profile_totals()) flops += r.flops;
    profile_enable(false);
    EXPECT_EQ(flops, total_flops(convolutions_of(config))) << network;
  }
}

// Convolution FLOPs of a step of the plain U-Net, by hand: 40.32 G forward, three times that but
// for the input's gradient.
TEST(Convolutions, PlainUnetCostsWhatIsKnown) {
  StepConfig config;
  config.network = "plain";
  EXPECT_NEAR(total_flops(convolutions_of(config)), 120.7e9, 0.05e9);
  int64_t count = 0;
  for (const Convolution& c : convolutions_of(config)) count += c.count;
  EXPECT_EQ(count, 18);
}

TEST(Convolutions, AreTimedInEachDirection) {
  const Convolution inner{.x = {1, 8, 8, 8, 16}, .out = 16, .kernel = 3};
  const ConvolutionTime time = time_convolution(inner, DType::f32, 2);
  EXPECT_GT(time.forward_s, 0);
  EXPECT_GT(time.data_s, 0);
  EXPECT_GT(time.weights_s, 0);
  Convolution first = inner;
  first.data_gradient = false;
  EXPECT_EQ(time_convolution(first, DType::f32, 2).data_s, 0);
  EXPECT_THROW(time_convolution(inner, DType::f32, 0), Error);
}

// The sum is oneDNN's even where a step would take our own kernels, and the choice is back after.
TEST(Convolutions, AreTimedInOnednn) {
  const Convolution wide{.x = {1, 18, 20, 22, 32}, .out = 32, .kernel = 3};
  const auto before = kernels::conv3d_implementations();
  time_convolution(wide, DType::f32, 1);
  int by_onednn = 0;
  for (const std::string& line : kernels::conv3d_implementations()) {
    if (std::find(before.begin(), before.end(), line) != before.end()) continue;
    EXPECT_EQ(line.find("winograd"), std::string::npos) << line;
    ++by_onednn;
  }
  EXPECT_GE(by_onednn, 2);  // forward and data gradient may share a line
}

TEST(Step, RefusesSettingsThatPlainDoesNotHave) {
  const auto ranks = make_self_communicator();
  StepConfig config;
  config.network = "plain";
  config.model.levels = 3;
  EXPECT_THROW(Step(config, *ranks), UsageError);
  config.model.levels = 4;
  config.loss.kind = "mae";
  EXPECT_THROW(Step(config, *ranks), UsageError);
}

TEST(Step, LearnsInEveryPrecision) {
  const auto ranks = make_self_communicator();
  for (const char* precision : {"fp32", "fp16", "bf16"}) {
    for (const char* network : {"unet3d", "plain"}) {
      StepConfig config;
      config.network = network;
      config.model.base = 4;
      config.size = Dims3::all(16);
      config.precision = precision;
      Step step(config, *ranks);
      step.run();
      const double first = step.loss();
      // The target is noise: memorising it takes many updates, but the mean goes quickly.
      for (int i = 0; i < 20; ++i) step.run();
      EXPECT_LT(step.loss(), first) << network << " " << precision;
    }
  }
}

TEST(MachinePeak, IsPositiveAndFindsTheWidestVectors) {
  const MachinePeak peak = measure_machine_peak(1);
  EXPECT_GT(peak.f32, 1e8);
  EXPECT_GT(peak.copy, 1e7);
  EXPECT_GT(peak.triad, 1e7);
  EXPECT_EQ(peak.bandwidth(), std::max(peak.copy, peak.triad));
#if defined(__x86_64__)
  EXPECT_EQ(peak.vectors == "AVX-512", __builtin_cpu_supports("avx512f") != 0);
  EXPECT_EQ(peak.bf16 > 0, __builtin_cpu_supports("avx512bf16") != 0);
#endif
  EXPECT_THROW(measure_machine_peak(0), Error);
}

TEST(OpFigures, HoldArithmeticAgainstThePeakAndTheRestAgainstTheBandwidth) {
  MachinePeak peak;
  peak.f32 = 100e9;
  peak.bf16 = 200e9;
  peak.copy = 10e9;
  peak.triad = 20e9;
  const std::vector<RangeTotal> totals{
      {.name = "conv", .count = 4, .total_s = 9, .self_s = 2, .flops = 50e9, .bytes = 1e12},
      {.name = "add", .count = 2, .self_s = 1, .bytes = 10e9},
      {.name = "none", .count = 2, .self_s = 1}};
  auto figures = op_figures(totals, 2, peak, DType::f32);
  ASSERT_EQ(figures.size(), 3u);
  EXPECT_DOUBLE_EQ(figures[0].calls, 2);
  EXPECT_DOUBLE_EQ(figures[0].ms, 1000);
  EXPECT_DOUBLE_EQ(figures[0].floor_ms, 250);  // 25 GFLOP at 100 GFLOP/s
  EXPECT_DOUBLE_EQ(figures[1].floor_ms, 250);  // 5 GB at 20 GB/s
  EXPECT_DOUBLE_EQ(figures[2].floor_ms, 0);
  figures = op_figures(totals, 2, peak, DType::bf16);
  EXPECT_DOUBLE_EQ(figures[0].floor_ms, 125);
  peak.bf16 = 0;  // no such instruction: what f32 can do
  EXPECT_DOUBLE_EQ(op_figures(totals, 2, peak, DType::f16)[0].floor_ms, 250);
  EXPECT_THROW(op_figures(totals, 0, peak, DType::f32), Error);
}

}  // namespace
}  // namespace bora::bench
