// SPDX-License-Identifier: Apache-2.0
// Optimizers over the arena (features 123, 124, 127).  The fused updates themselves are tested in
// tests/kernels.
#include "nn/optim/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "nn/layers/conv3d.hpp"
#include "nn/layers/norm.hpp"
#include "tests/support/device.hpp"

namespace bora::nn {
namespace {

struct Net : Module {
  Linear first{3, 5, Bias::yes};
  Norm norm{NormKind::group, 5};
  Linear second{5, 2, Bias::no};
  void visit(Visitor& v) override {
    v.child("first", first);
    v.child("norm", norm);
    v.child("second", second);
  }
};

struct Rig {
  Net net;
  ParameterArena arena{net, DType::f64, test::device()};
  Rig() {
    initialise(net, 1);
    for (size_t i = 0; i < arena.layout().ranges().size(); ++i) {
      Tensor g = arena.gradients().part(static_cast<int>(i));
      for (int64_t k = 0; k < g.numel(); ++k)
        test::put<double>(g, k, 0.1 * static_cast<double>(k + 1));
    }
  }
  Tensor value(const std::string& name) const {
    for (size_t i = 0; i < arena.layout().ranges().size(); ++i)
      if (arena.layout().range(static_cast<int>(i)).name == name)
        return const_cast<ParameterArena&>(arena).values().part(static_cast<int>(i));
    throw Error("no " + name);
  }
};

TEST(AdamW, StepsEveryParameterAsTheFormulaSays) {
  Rig rig;
  const auto before = rig.value("second.weight").to_vector<double>();
  const auto optimizer = make_adamw(rig.arena, {.weight_decay = 0.01});
  optimizer->step({.lr = 0.1, .gradient_factor = 0.5});
  EXPECT_EQ(optimizer->updates(), 1);
  const auto after = rig.value("second.weight").to_vector<double>();
  for (size_t i = 0; i < after.size(); ++i) {
    // First step: m / (1 - b1) = g, v / (1 - b2) = g^2.
    const double g = 0.5 * 0.1 * static_cast<double>(i + 1);
    EXPECT_NEAR(after[i], before[i] * (1 - 0.1 * 0.01) - 0.1 * g / (g + 1e-8), 1e-12);
  }
}

TEST(AdamW, LeavesNormsAndBiasesUndecayedWhereAsked) {
  for (const bool all : {true, false}) {
    Rig rig;
    rig.arena.gradients().all().fill(0.0);
    const auto gamma = rig.value("norm.gamma").to_vector<double>();
    const auto weight = rig.value("first.weight").to_vector<double>();
    const auto optimizer = make_adamw(rig.arena, {.weight_decay = 0.5, .decay_all = all});
    optimizer->step({.lr = 0.1});
    const auto gamma_after = rig.value("norm.gamma").to_vector<double>();
    EXPECT_DOUBLE_EQ(gamma_after[0], all ? gamma[0] * 0.95 : gamma[0]);
    EXPECT_DOUBLE_EQ(rig.value("first.weight").to_vector<double>()[0], weight[0] * 0.95);
  }
}

TEST(Sgd, MomentumAndNesterovAsTheFormulaSays) {
  for (const bool nesterov : {false, true}) {
    Rig rig;
    const double p = rig.value("second.weight").to_vector<double>()[1];
    const auto optimizer =
        make_sgd(rig.arena, {.momentum = 0.9, .nesterov = nesterov, .weight_decay = 0.1});
    optimizer->step({.lr = 0.01});
    const double g1 = 0.2 + 0.1 * p, b1 = g1;
    const double p1 = p - 0.01 * (nesterov ? g1 + 0.9 * b1 : b1);
    EXPECT_NEAR(rig.value("second.weight").to_vector<double>()[1], p1, 1e-13);
    optimizer->step({.lr = 0.01});
    const double g2 = 0.2 + 0.1 * p1, b2 = 0.9 * b1 + g2;
    EXPECT_NEAR(rig.value("second.weight").to_vector<double>()[1],
                p1 - 0.01 * (nesterov ? g2 + 0.9 * b2 : b2), 1e-13);
  }
  Rig rig;
  EXPECT_THROW(make_sgd(rig.arena, {.nesterov = true}), Error);
}

// Feature 127: over all parameters; 0 disables; under the limit untouched; NaN is counted and
// named, never a factor.
TEST(Clip, IsGlobalAndNeverPoisons) {
  Rig rig;
  double squares = 0;
  for (const double g : rig.arena.gradients().all().to_vector<double>()) squares += g * g;
  const GradientNorm norm = gradient_norm(rig.arena);
  EXPECT_NEAR(norm.norm, std::sqrt(squares), 1e-12);
  EXPECT_EQ(norm.non_finite, 0);
  EXPECT_EQ(clip_factor(norm.norm, 0.0), 1.0);
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_NEAR(clip_factor(4.0, 1.0), 1.0 / (4.0 + 1e-6), 1e-15);
  EXPECT_EQ(clip_factor(std::numeric_limits<double>::quiet_NaN(), 1.0), 1.0);
  EXPECT_EQ(first_non_finite_gradient(rig.arena), "");

  test::put<double>(rig.arena.gradients().part(0), 3,
                    std::numeric_limits<double>::infinity());  // second.weight
  test::put<double>(rig.arena.gradients().part(3), 1,
                    std::numeric_limits<double>::quiet_NaN());  // first.bias
  const GradientNorm bad = gradient_norm(rig.arena);
  EXPECT_EQ(bad.non_finite, 2);
  EXPECT_TRUE(std::isnan(bad.norm));
  EXPECT_EQ(first_non_finite_gradient(rig.arena), "second.weight");
}

}  // namespace
}  // namespace bora::nn
