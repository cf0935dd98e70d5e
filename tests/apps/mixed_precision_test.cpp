// SPDX-License-Identifier: Apache-2.0
// fp16 and bf16 through the whole network, and the order of an update (features 53, 54, 126-134).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "apps/common/updater.hpp"
#include "apps/unet3d/loss.hpp"
#include "apps/unet3d/model.hpp"
#include "comm/communicator.hpp"
#include "comm/gradient_reducer.hpp"
#include "core/op.hpp"
#include "core/rng.hpp"
#include "nn/parameter_arena.hpp"
#include "tests/apps/device_under_test.hpp"

namespace bora::unet3d {
namespace {

using bora::testing::device_under_test;

const ModelConfig kModel{.base = 4, .levels = 2};
const Shape kShape{2, 9, 8, 6, 1};

Tensor noise(const Shape& shape, uint64_t seed) {
  const RngKey key{seed, 21};
  std::vector<double> v(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = key.normal(i);
  return Tensor::from<double>(shape, v).to(DType::f32).to(device_under_test());
}

struct Rig {
  UNet3d net;
  nn::ParameterArena arena;
  DType type;
  std::unique_ptr<Collective> self = make_self_communicator(device_under_test().type);
  std::unique_ptr<nn::Optimizer> optimizer;
  GradientReducer reducer;
  nn::GradScaler scaler;
  apps::Updater updater;

  explicit Rig(DType half, const kernels::LossScaleRule& rule = {}, double clip = 1.0,
               const ModelConfig& model = kModel)
      : net(1, 1, model),
        arena(net, DType::f32, half, device_under_test()),
        type(half),
        optimizer(nn::make_adamw(arena, {})),
        reducer(arena.gradients(), arena.leaves(), *self, {.op = ReduceOp::sum}),
        scaler(rule, device_under_test()),
        updater(arena, *optimizer, reducer, {.peak = 1e-2, .total = 20}, clip,
                half == DType::f16 ? &scaler : nullptr) {
    nn::initialise(net, 3);
    arena.refresh_working();
  }

  double forward_backward(const Tensor& x, const Tensor& t, double weight = 1.0) {
    const PrecisionScope scope(type);
    const Tensor y = net.forward(x);
    EXPECT_EQ(y.dtype(), type);
    const Loss loss = compute_loss({}, y, t, {});
    EXPECT_EQ(loss.total.dtype(), DType::f32);
    backward(loss.total, updater.seed(weight));
    return loss.value(0);
  }
  apps::UpdateReport step(const Tensor& x, const Tensor& t) {
    updater.begin_window();
    forward_backward(x, t);
    return updater.finish_window();
  }
  std::vector<float> weights() { return arena.values().all().to_vector<float>(); }
};

double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
  double d = 0, n = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    d += std::pow(static_cast<double>(a[i]) - b[i], 2);
    n += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(d / n);
}

// Feature 128: the gradient in half follows f32's.  About 40 stores lie between a weight and the
// loss, each rounds by at most half a unit u (2^-11 in f16, 2^-8 in bf16): errors of random sign
// add like sqrt(40 * 2) u / sqrt(3) = 5 u.  The bound is 4 times that, for the sums of few cells.
TEST(MixedPrecision, GradientFollowsF32) {
  const Tensor x = noise(kShape, 1), t = noise(kShape, 2);
  Rig truth(DType::f32);
  const double expected = truth.forward_backward(x, t);
  const auto gradient = truth.arena.gradients().all().to_vector<float>();
  for (const DType type : {DType::f16, DType::bf16}) {
    SCOPED_TRACE(name_of(type));
    const double u = type == DType::f16 ? std::pow(2.0, -11) : std::pow(2.0, -8);
    Rig rig(type);
    EXPECT_NEAR(rig.forward_backward(x, t) / expected, 1.0, 20 * u);
    if (type == DType::f16) rig.scaler.unscale(rig.arena);
    EXPECT_LT(relative_distance(rig.arena.gradients().all().to_vector<float>(), gradient), 20 * u);
    EXPECT_GT(relative_distance(rig.arena.gradients().all().to_vector<float>(), gradient), 0.0);
  }
}

// Small gradients vanish in f16 without a scale and are kept with one.
TEST(MixedPrecision, ScaleKeepsSmallGradients) {
  const Tensor x = noise(kShape, 1), t = noise(kShape, 2);
  const double small = 1e-7;  // of a loss weighted so, most gradients are below 2^-24
  Rig truth(DType::f32), scaled(DType::f16), plain(DType::f16, {.initial = 1});
  truth.forward_backward(x, t, small);
  scaled.forward_backward(x, t, small);
  plain.forward_backward(x, t, small);
  scaled.scaler.unscale(scaled.arena);
  const auto expected = truth.arena.gradients().all().to_vector<float>();
  EXPECT_LT(relative_distance(scaled.arena.gradients().all().to_vector<float>(), expected), 0.02);
  EXPECT_GT(relative_distance(plain.arena.gradients().all().to_vector<float>(), expected), 0.2);
}

// Features 129, 131: an overflow skips the update; schedule and optimizer stay; then it recovers.
TEST(MixedPrecision, OverflowSkipsAndRecovers) {
  const Tensor x = noise(kShape, 1), t = noise(kShape, 2);
  const double huge = std::pow(2.0, 40);
  Rig rig(DType::f16, {.initial = huge, .highest = huge});
  const auto before = rig.weights();
  apps::UpdateReport report = rig.step(x, t);
  EXPECT_TRUE(report.skipped);
  EXPECT_EQ(report.update, 0);
  EXPECT_EQ(report.loss_scale, huge);
  EXPECT_EQ(rig.scaler.scale(), huge / 2);
  EXPECT_EQ(rig.weights(), before);
  EXPECT_EQ(rig.optimizer->updates(), 0);
  int skipped = 1;
  while ((report = rig.step(x, t)).skipped) ASSERT_LT(++skipped, 40);
  EXPECT_EQ(report.update, 1);
  EXPECT_EQ(report.lr, nn::learning_rate({.peak = 1e-2, .total = 20}, 0)) << "the schedule moved";
  EXPECT_EQ(rig.scaler.skipped(), skipped);
  EXPECT_NE(rig.weights(), before);
}

// At the lowest scale the run stops, names the parameter, and leaves the weights.
TEST(MixedPrecision, OverflowAtTheLowestScaleStops) {
  const Tensor x = noise(kShape, 1), t = noise(kShape, 2);
  Rig rig(DType::f16, {.initial = 4, .lowest = 2});
  Tensor bad = x.clone();
  bad.reshape({bad.numel()}).rows(5, 6).fill(std::numeric_limits<double>::infinity());
  const auto before = rig.weights();
  EXPECT_TRUE(rig.step(bad, t).skipped);
  rig.updater.begin_window();
  rig.forward_backward(bad, t);
  // A device asks when it reports.
  rig.updater.find_suspect_with([](int64_t) { return std::string("op 1 (conv3d)"); });
  try {
    rig.updater.finish_window("op 1 (conv3d)");
    FAIL() << "went on";
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("lowest loss scale, 2"), std::string::npos) << text;
    EXPECT_NE(text.find("head.bias"), std::string::npos) << text;
    EXPECT_NE(text.find("op 1 (conv3d)"), std::string::npos) << text;
  }
  EXPECT_EQ(rig.weights(), before);
}

// The order: unscale, then norm and clip, then the update.  The logged norm does not depend on the
// scale, and neither do the weights, bit for bit, since a power of two only moves exponents.
TEST(MixedPrecision, ClippingSeesTheUnscaledGradient) {
  const Tensor x = noise(kShape, 1), t = noise(kShape, 2);
  Rig low(DType::f16, {.initial = 1024}, 0.01), high(DType::f16, {.initial = 4096}, 0.01);
  const apps::UpdateReport a = low.step(x, t), b = high.step(x, t);
  EXPECT_NEAR(a.gradient_norm / b.gradient_norm, 1.0, 1e-3);  // subnormals differ
  EXPECT_LT(a.clip, 1.0);
  EXPECT_LT(relative_distance(low.weights(), high.weights()), 1e-3);
  Rig truth(DType::f32, {}, 0.01);
  EXPECT_NEAR(truth.step(x, t).gradient_norm / a.gradient_norm, 1.0, 0.01);
}

// Features 53, 54: two micro-steps are unscaled, clipped and stepped once.
TEST(MixedPrecision, AccumulationUnscalesOnce) {
  const Tensor x = noise(kShape, 1), t = noise(kShape, 2);
  Rig whole(DType::f16, {}, 0.1), parts(DType::f16, {}, 0.1);
  const apps::UpdateReport expected = whole.step(x, t);
  parts.updater.begin_window();
  parts.reducer.set_enabled(false);
  parts.forward_backward(x.rows(0, 1), t.rows(0, 1), 0.5);
  parts.reducer.set_enabled(true);
  parts.forward_backward(x.rows(1, 2), t.rows(1, 2), 0.5);
  const apps::UpdateReport report = parts.updater.finish_window();
  EXPECT_EQ(report.update, 1);
  EXPECT_NEAR(report.gradient_norm / expected.gradient_norm, 1.0, 0.01);
  EXPECT_LT(relative_distance(parts.weights(), whole.weights()), 0.01);
}

// Row 108 in half: recomputed blocks give the same bits.
TEST(MixedPrecision, RecomputeGivesTheSameBits) {
  const Tensor x = noise(kShape, 1), t = noise(kShape, 2);
  for (const DType type : {DType::f16, DType::bf16}) {
    ModelConfig again = kModel;
    again.recompute = true;
    Rig plain(type), recomputed(type, {}, 1.0, again);
    plain.step(x, t);
    recomputed.step(x, t);
    EXPECT_EQ(plain.weights(), recomputed.weights()) << name_of(type);
  }
}

// Features 132, 133 in small: every precision learns; bf16 without a scaler.
TEST(MixedPrecision, EveryPrecisionLearns) {
  const Tensor x = noise(kShape, 1);
  std::vector<float> half_x = x.to_vector<float>();
  for (float& v : half_x) v *= 0.5f;
  const Tensor t = Tensor::from<float>(kShape, half_x, device_under_test());
  double f32_loss = 0;
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    Rig rig(type);
    double first = 0, last = 0;
    for (int i = 0; i < 20; ++i) {
      rig.updater.begin_window();
      last = rig.forward_backward(x, t);
      if (i == 0) first = last;
      EXPECT_FALSE(rig.updater.finish_window().skipped);
    }
    EXPECT_LT(last, 0.7 * first) << name_of(type);
    if (type == DType::f32) f32_loss = last;
    EXPECT_NEAR(last / f32_loss, 1.0, 0.05) << name_of(type);
  }
}

}  // namespace
}  // namespace bora::unet3d
