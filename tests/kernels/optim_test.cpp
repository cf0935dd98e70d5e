// SPDX-License-Identifier: Apache-2.0
// Fused optimizers against PyTorch, and gradient statistics.  Features 123, 124, 127.
#include "kernels/optim.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/grad_stats.hpp"
#include "tests/kernels/guarded.hpp"
#include "tests/kernels/torch_values.hpp"
#include "tests/support/device.hpp"
#include "tests/support/tolerance.hpp"

namespace bora::kernels {
namespace {

using test::differences;
using test::Guarded;
using test::make_tensor;
using test::values_of;

// The problem of tests/reference/torch_values.py.
std::vector<double> start() {
  std::vector<double> p;
  for (int i = 0; i < 9; ++i) p.push_back(std::sin(0.75 * i + 0.25));
  return p;
}

std::vector<double> gradient(int t) {
  std::vector<double> g;
  for (int i = 0; i < 9; ++i) g.push_back(std::sin(0.75 * i + 0.3125 * t) * (1 + i) / 3);
  return g;
}

template <class Step>
std::vector<double> after_100_steps(DType type, bool slot0, bool slot1, Step step) {
  OptimBuffers b{.gradient = test::zeros({9}, type),
                 .master = make_tensor({9}, start(), type),
                 .slot0 = slot0 ? test::zeros({9}, type) : Tensor(),
                 .slot1 = slot1 ? test::zeros({9}, type) : Tensor(),
                 .working = {},
                 .skip = {}};
  for (int t = 1; t <= 100; ++t) {
    b.gradient.copy_from(make_tensor({9}, gradient(t), type));
    step(t, b);
  }
  return values_of(b.master);
}

// Each step rounds about 12 times; parameters and steps are of order 1 and below.
double bound(DType type) { return test::gamma(12 * 100, type); }

TEST(AdamW, FollowsPyTorchFor100Steps) {
  for (DType type : {DType::f64, DType::f32})
    EXPECT_EQ("", differences(after_100_steps(type, true, true,
                                              [](int t, OptimBuffers& b) {
                                                adamw(b.master.stream(),
                                                      {.learning_rate = 0.01,
                                                       .beta1 = 0.9,
                                                       .beta2 = 0.98,
                                                       .eps = 1e-6,
                                                       .weight_decay = 0.1,
                                                       .step = t},
                                                      b);
                                              }),
                              test::torch_values::kAdamW, bound(type)))
        << name_of(type);
}

TEST(Sgd, FollowsPyTorchFor100Steps) {
  struct Case {
    SgdUpdate update;
    const std::vector<double>& want;
  };
  const Case cases[] = {
      {{.learning_rate = 0.01}, test::torch_values::kSgdPlain},
      {{.learning_rate = 0.01, .momentum = 0.9, .weight_decay = 0.1}, test::torch_values::kSgd},
      {{.learning_rate = 0.01, .momentum = 0.9, .nesterov = true},
       test::torch_values::kSgdNesterov}};
  for (DType type : {DType::f64, DType::f32})
    for (const Case& c : cases)
      // Sums of 100 gradients of up to 3, times momentum's 10.
      EXPECT_EQ("", differences(after_100_steps(type, c.update.momentum > 0, false,
                                                [&](int, OptimBuffers& b) {
                                                  sgd(b.master.stream(), c.update, b);
                                                }),
                                c.want, 30 * bound(type)))
          << name_of(type) << " momentum " << c.update.momentum;
}

// One step on n elements, each with a formula of its own in f64.
struct Ranges {
  Guarded gradient, master, m, v;
  explicit Ranges(int64_t n, DType gradient_type)
      : gradient({n}, gradient_type, test::normal_values(n, 1)),
        master({n}, DType::f32, test::normal_values(n, 2)),
        m({n}, DType::f32, test::normal_values(n, 3)),
        v({n}, DType::f32, test::uniform_values(n, 0, 1, 4)) {}
  OptimBuffers buffers() {
    return {.gradient = gradient.view(),
            .master = master.view(),
            .slot0 = m.view(),
            .slot1 = v.view(),
            .working = {},
            .skip = {}};
  }
};

const AdamWUpdate kUpdate{.learning_rate = 0.02,
                          .beta1 = 0.8,
                          .beta2 = 0.95,
                          .eps = 1e-8,
                          .weight_decay = 0.3,
                          .step = 3,
                          .gradient_factor = 0.25};

TEST(AdamW, IsRightAtAllSizesAndGradientTypesWithinItsBounds) {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (int64_t n : test::kSizes) {
      SCOPED_TRACE(testing::Message() << name_of(type) << ' ' << n);
      Ranges r(n, type);
      const std::vector<double> g = values_of(r.gradient.view()), p = values_of(r.master.view()),
                                m = values_of(r.m.view()), v = values_of(r.v.view());
      OptimBuffers b = r.buffers();
      Guarded working({n}, DType::bf16);
      b.working = working.view();
      adamw(b.master.stream(), kUpdate, b);
      std::vector<double> want(g.size());
      for (size_t i = 0; i < g.size(); ++i) {
        const double gi = 0.25 * g[i], mi = 0.8 * m[i] + 0.2 * gi,
                     vi = 0.95 * v[i] + 0.05 * gi * gi;
        const double m_hat = mi / (1 - std::pow(0.8, 3)), v_hat = vi / (1 - std::pow(0.95, 3));
        want[i] = p[i] * (1 - 0.02 * 0.3) - 0.02 * m_hat / (std::sqrt(v_hat) + 1e-8);
      }
      EXPECT_EQ("", differences(values_of(r.master.view()), want,
                                test::gamma(16, DType::f32) * (1 + test::max_abs(want))));
      EXPECT_EQ(values_of(r.master.view().to(DType::bf16)), values_of(working.view()));
      for (const Guarded* guarded : {&r.master, &r.m, &r.v, &working})
        guarded->expect_guards_untouched();
    }
}

TEST(Optimizers, FactorActsAsOnTheGradientItself) {
  Ranges a(100, DType::f32), b(100, DType::f32);
  b.gradient.view().copy_from(make_tensor(
      {100},
      [&] {
        std::vector<double> g = values_of(b.gradient.view());
        for (double& x : g) x *= 0.25;  // exact
        return g;
      }(),
      DType::f32));
  OptimBuffers with = a.buffers(), scaled = b.buffers();
  AdamWUpdate plain = kUpdate;
  plain.gradient_factor = 1.0;
  adamw(with.master.stream(), kUpdate, with);
  adamw(scaled.master.stream(), plain, scaled);
  EXPECT_EQ(values_of(with.master), values_of(scaled.master));
}

TEST(Optimizers, SkipFlagLeavesAllBitsAlone) {
  for (bool skipped : {true, false}) {
    Ranges r(1000, DType::f32);
    OptimBuffers b = r.buffers();
    b.working = test::full({1000}, 7.0, DType::f16);
    b.skip = test::full({}, skipped ? 1.0 : 0.0, DType::u8);
    const std::vector<double> p = values_of(b.master), m = values_of(b.slot0),
                              v = values_of(b.slot1), w = values_of(b.working);
    adamw(b.master.stream(), kUpdate, b);
    EXPECT_EQ(skipped, p == values_of(b.master));
    EXPECT_EQ(skipped, m == values_of(b.slot0));
    EXPECT_EQ(skipped, v == values_of(b.slot1));
    EXPECT_EQ(skipped, w == values_of(b.working));
    b.slot1 = Tensor();
    const std::vector<double> p2 = values_of(b.master);
    sgd(b.master.stream(), {.learning_rate = 0.1, .momentum = 0.9}, b);
    EXPECT_EQ(skipped, p2 == values_of(b.master));
  }
}

TEST(Optimizers, RefuseWhatDoesNotFit) {
  Ranges r(10, DType::f32);
  const OptimBuffers good = r.buffers();
  const Stream s = good.master.stream();
  const auto adamw_with = [&](auto change) {
    OptimBuffers b = good;
    AdamWUpdate u = kUpdate;
    change(b, u);
    adamw(s, u, b);
  };
  EXPECT_THROW(adamw_with([](auto& b, auto&) { b.slot1 = Tensor(); }), Error);
  EXPECT_THROW(adamw_with([](auto& b, auto&) { b.slot0 = test::zeros({9}, DType::f32); }), Error);
  EXPECT_THROW(adamw_with([](auto& b, auto&) { b.working = test::zeros({10}, DType::f32); }),
               Error);
  EXPECT_THROW(adamw_with([](auto& b, auto&) { b.gradient = test::zeros({10}, DType::f64); }),
               Error);
  EXPECT_THROW(adamw_with([](auto&, auto& u) { u.step = 0; }), Error);
  EXPECT_THROW(adamw_with([](auto&, auto& u) { u.beta1 = 1.0; }), Error);
  OptimBuffers b = good;
  b.slot0 = Tensor();
  EXPECT_THROW(sgd(s, {.momentum = 0.9}, b), Error);
  EXPECT_THROW(sgd(s, {.nesterov = true}, b), Error);
}

std::vector<double> stats_of(const Tensor& g) {
  Tensor out = test::empty({3}, DType::f64);
  grad_stats(g.stream(), g, out);
  return out.to_vector<double>();
}

TEST(GradStats, MatchesF64AtAllSizesAndTypes) {
  for (DType type : test::kFloats)
    for (int64_t n : test::kSizes) {
      const Tensor g = make_tensor({n}, test::normal_values(n, 9), type);
      double squares = 0;
      for (double v : values_of(g)) squares += v * v;
      const std::vector<double> got = stats_of(g);
      EXPECT_NEAR(squares, got[0], squares * test::gamma(static_cast<double>(n) + 1, DType::f64));
      EXPECT_EQ(0.0, got[1]);
      EXPECT_EQ(test::max_abs(values_of(g)), got[2]);
    }
}

TEST(GradStats, CountsNonFiniteElementsAndLeavesThemOut) {
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> v = test::normal_values(40000, 3);
  v[0] = std::nan("");
  v[777] = inf;
  v[39999] = -inf;
  std::vector<double> without = v;
  without[0] = without[777] = without[39999] = 0.0;
  for (DType type : test::kFloats) {
    const std::vector<double> got = stats_of(make_tensor({40000}, v, type));
    const std::vector<double> clean = stats_of(make_tensor({40000}, without, type));
    EXPECT_EQ(3.0, got[1]) << name_of(type);
    EXPECT_EQ(clean[0], got[0]);
    EXPECT_EQ(clean[2], got[2]);
  }
}

TEST(GradStats, LargeValuesDoNotOverflow) {
  const std::vector<double> got = stats_of(test::full({1000}, 3e38, DType::f32));
  EXPECT_EQ(0.0, got[1]);
  EXPECT_NEAR(1000 * 9e76, got[0], 1e72);
}

TEST(GradStats, ClipFactorLimitsOnlyWhatIsAbove) {
  EXPECT_EQ(1.0, clip_factor(5.0, 0.0)) << "0 disables";
  EXPECT_EQ(1.0, clip_factor(0.5, 1.0)) << "below the limit untouched";
  EXPECT_NEAR(0.25, clip_factor(4.0, 1.0), 1e-6);
  EXPECT_LE(4.0 * clip_factor(4.0, 1.0), 1.0);
  EXPECT_EQ(1.0, clip_factor(std::nan(""), 1.0)) << "a NaN norm never reaches the gradients";
  EXPECT_EQ(1.0, clip_factor(HUGE_VAL, 1.0));
}

}  // namespace
}  // namespace bora::kernels
