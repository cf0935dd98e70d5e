// SPDX-License-Identifier: Apache-2.0
// Dynamic loss scaling as a state machine and as a part of a step (features 129, 131).
#include "nn/amp/grad_scaler.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/grad_stats.hpp"
#include "nn/layers/conv3d.hpp"
#include "tests/support/device.hpp"

namespace bora::nn {
namespace {

using kernels::LossScaleRule;
using kernels::LossScaleState;

bool operator==(const LossScaleState& a, const LossScaleState& b) {
  return a.scale == b.scale && a.good == b.good && a.tolerated == b.tolerated &&
         a.skipped == b.skipped;
}

TEST(LossScale, GrowsAfterTheIntervalAndHalvesOnOverflow) {
  const LossScaleRule rule;
  LossScaleState s{rule.initial, 0, 0, 0};
  for (int i = 0; i < 1999; ++i) s = next(rule, s, false);
  EXPECT_EQ(s.scale, 65536.0);
  s = next(rule, s, false);
  EXPECT_EQ(s.scale, 131072.0);
  EXPECT_EQ(s.good, 0);
  for (int i = 0; i < 1999; ++i) s = next(rule, s, false);
  s = next(rule, s, true);  // one short of growing: the count starts again
  EXPECT_EQ(s.scale, 65536.0);
  EXPECT_EQ(s.skipped, 1);
  for (int i = 0; i < 1999; ++i) s = next(rule, s, false);
  EXPECT_EQ(s.scale, 65536.0);
  EXPECT_EQ(next(rule, s, false).scale, 131072.0);
}

// Every sequence of 12 outcomes against a plain model that looks at the whole history.
TEST(LossScale, EverySequenceFollowsTheRule) {
  for (const int64_t hysteresis : {1, 2, 3})
    for (const int64_t interval : {1, 2, 3}) {
      const LossScaleRule rule{.initial = 8,
                               .growth = 2,
                               .backoff = 0.5,
                               .interval = interval,
                               .lowest = 2,
                               .highest = 32,
                               .hysteresis = hysteresis};
      for (unsigned sequence = 0; sequence < (1u << 12); ++sequence) {
        LossScaleState s{rule.initial, 0, 0, 0};
        double scale = 8, skipped = 0;
        int64_t run = 0, overflows = 0;
        for (int i = 0; i < 12; ++i) {
          const bool overflow = (sequence >> i) & 1u;
          s = next(rule, s, overflow);
          if (overflow) {
            ++skipped;
            run = 0;
            if (++overflows == hysteresis) {
              scale = std::max(2.0, scale / 2);
              overflows = 0;
            }
          } else if (++run == interval) {
            scale = std::min(32.0, scale * 2);
            run = 0;
            overflows = 0;
          }
          ASSERT_EQ(s.scale, scale) << "sequence " << sequence << ", outcome " << i;
          ASSERT_EQ(s.skipped, skipped);
          ASSERT_GE(s.scale, rule.lowest);
          ASSERT_LE(s.scale, rule.highest);
        }
      }
    }
}

TEST(LossScale, KernelMakesTheSameTransition) {
  const LossScaleRule rule{.interval = 3, .hysteresis = 2};
  Tensor state = test::from<double>({4}, std::vector<double>{65536, 0, 0, 0});
  LossScaleState s{65536, 0, 0, 0};
  for (int i = 0; i < 40; ++i) {
    const bool overflow = i % 7 > 4;
    const Tensor stats = test::from<double>({3}, std::vector<double>{1, overflow ? 2.0 : 0, 1});
    kernels::advance_loss_scale(state.stream(), rule, stats, state);
    s = next(rule, s, overflow);
    const auto v = state.to_vector<double>();
    ASSERT_TRUE((LossScaleState{v[0], v[1], v[2], v[3]} == s)) << i;
  }
}

TEST(LossScale, SettingsOutOfRangeAreNamed) {
  const auto refused = [](const LossScaleRule& rule, const char* key) {
    try {
      GradScaler scaler(rule, test::device());
      FAIL() << key << " was taken";
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find(key), std::string::npos) << e.what();
    }
  };
  refused({.initial = 0.5}, "scaler.initial");
  refused({.lowest = 0}, "scaler.lowest");
  refused({.lowest = 4, .highest = 2}, "scaler.highest");
  refused({.backoff = 1}, "scaler.backoff");
  refused({.growth = 0.5}, "scaler.growth");
  refused({.interval = 0}, "scaler.interval");
  refused({.hysteresis = 0}, "scaler.hysteresis");
}

// One pass: in f32, exact for powers of two, counts what is not finite; sizes around the vectors.
TEST(Unscale, DividesInF32AndMeasures) {
  for (const int64_t n : {0, 1, 7, 15, 16, 17, 63, 64, 65, 10007}) {
    Tensor g = test::empty({n}, DType::f32);
    double squares = 0;
    std::vector<float> scaled(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      scaled[static_cast<size_t>(i)] = 65536.0f * static_cast<float>(i % 13 - 6);
      squares += static_cast<double>((i % 13 - 6) * (i % 13 - 6));
    }
    g.copy_from(test::from<float>({n}, scaled));
    Tensor out = test::empty({3}, DType::f64);
    kernels::unscale_and_stats(g.stream(), 1.0 / 65536, g, out);
    const std::vector<float> unscaled = g.to_vector<float>();
    for (int64_t i = 0; i < n; ++i)
      ASSERT_EQ(unscaled[static_cast<size_t>(i)], static_cast<float>(i % 13 - 6))
          << i << " of " << n;
    EXPECT_EQ(out.to_vector<double>()[0], squares) << n;
    EXPECT_EQ(out.to_vector<double>()[1], 0.0);
  }
  // A product that overflows counts too.
  Tensor g = test::from<float>(
      {4}, std::vector<float>{3e38f, 1.0f, std::numeric_limits<float>::quiet_NaN(), -3e38f});
  Tensor out = test::empty({3}, DType::f64);
  kernels::unscale_and_stats(g.stream(), 4.0, g, out);
  EXPECT_EQ(out.to_vector<double>()[1], 3.0);
  EXPECT_TRUE(std::isinf(test::element<float>(g, 0)));
  EXPECT_THROW(kernels::unscale_and_stats(g.stream(), 0.0, g, out), Error);
}

struct Net : Module {
  Linear layer{3, 5, Bias::yes};
  void visit(Visitor& v) override { v.child("layer", layer); }
};

TEST(GradScaler, UnscalesOnceAWindow) {
  Net net;
  ParameterArena arena(net, DType::f32, test::device());
  initialise(net, 1);
  arena.gradients().all().fill(0.0);
  arena.gradients().part(1).fill(65536.0);  // 15 weights
  GradScaler scaler({}, test::device());
  EXPECT_EQ(scaler.scale(), 65536.0);
  EXPECT_THROW(scaler.advance(), Error);
  const GradientNorm norm = scaler.unscale(arena);
  EXPECT_NEAR(norm.norm, std::sqrt(15.0), 1e-12);
  EXPECT_THROW(scaler.unscale(arena), Error);
  EXPECT_EQ(arena.gradients().part(1).to_vector<float>()[0], 1.0f) << "divided a second time";
  scaler.advance();
  EXPECT_EQ(scaler.skipped(), 0);
  test::put<float>(arena.gradients().part(0), 2, std::numeric_limits<float>::infinity());
  EXPECT_EQ(scaler.unscale(arena).non_finite, 1);
  scaler.advance();
  EXPECT_EQ(scaler.scale(), 32768.0);
  EXPECT_EQ(scaler.skipped(), 1);
}

// The optimizer keeps the half copy true to the master, also through SGD and refresh_working().
TEST(ParameterArena, WorkingCopyFollowsTheMaster) {
  for (const DType half : {DType::f16, DType::bf16}) {
    Net net;
    ParameterArena arena(net, DType::f32, half, test::device());
    initialise(net, 1);
    const auto expect_true = [&](const char* when) {
      EXPECT_EQ(arena.working().all().to(DType::f32).to_vector<float>(),
                arena.values().all().to(half).to(DType::f32).to_vector<float>())
          << when;
    };
    arena.refresh_working();
    expect_true("after refresh");
    arena.gradients().all().fill(0.25);
    make_adamw(arena, {})->step({.lr = 0.1});
    expect_true("after adamw");
    make_sgd(arena, {.momentum = 0.9})->step({.lr = 0.1});
    expect_true("after sgd");
  }
  Net net;
  EXPECT_THROW(ParameterArena(net, DType::f64, DType::f16), Error);
  EXPECT_FALSE(ParameterArena(net, DType::f32).has_working());
}

}  // namespace
}  // namespace bora::nn
