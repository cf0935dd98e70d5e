// SPDX-License-Identifier: Apache-2.0
// Module, Parameter, ParameterArena, initialisers (features 105, 122, 134, 144).
#include "nn/module.hpp"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <map>

#include "core/rng.hpp"
#include "nn/layers/conv3d.hpp"
#include "nn/layers/norm.hpp"
#include "nn/parameter_arena.hpp"
#include "tests/support/device.hpp"

namespace bora::nn {
namespace {

struct Pair : Module {
  Conv3d first{2, 4, Dims3::all(3), Bias::yes};
  Norm norm{NormKind::group, 4};
  void visit(Visitor& v) override {
    v.child("first", first);
    v.child("norm", norm);
  }
};

struct Outer : Module {
  Pair a, b;
  Linear last{8, 3, Bias::yes};
  void visit(Visitor& v) override {
    v.child("a", a);
    v.child("b", b);
    v.child("last", last);
  }
};

TEST(Module, NamesFollowTheTreeInForwardOrder) {
  Outer net;
  std::vector<std::string> names;
  for (const auto& p : named_parameters(net)) names.push_back(p.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"a.first.weight", "a.first.bias", "a.norm.gamma",
                                      "a.norm.beta", "b.first.weight", "b.first.bias",
                                      "b.norm.gamma", "b.norm.beta", "last.weight", "last.bias"}));
  EXPECT_EQ(parameter_count(net), 2 * (2 * 4 * 27 + 4 + 4 + 4) + 8 * 3 + 3);
  EXPECT_NE(summary(net).find("b.norm.gamma"), std::string::npos);
}

TEST(Module, TwoParametersOfOneNameAreRefused) {
  struct Twice : Module {
    Linear l{1, 1, Bias::no};
    void visit(Visitor& v) override {
      v.child("x", l);
      v.child("x", l);
    }
  } net;
  EXPECT_THROW(named_parameters(net), Error);
}

TEST(Module, ModeReachesEveryChild) {
  Outer net;
  EXPECT_TRUE(net.b.norm.training());
  net.set_training(false);
  EXPECT_FALSE(net.training() || net.a.training() || net.b.norm.training() || net.last.training());
  net.set_training(true);
  EXPECT_TRUE(net.b.norm.training());
}

TEST(ParameterArena, LaysOutInReverseOrderAlignedAndShared) {
  Outer net;
  ParameterArena arena(net, DType::f32, test::device());
  EXPECT_EQ(arena.layout().range(0).name, "last.bias");
  EXPECT_EQ(arena.layout().ranges().back().name, "a.first.weight");
  for (const Range& r : arena.layout().ranges()) EXPECT_EQ(r.offset % 64, 0);
  const auto parameters = named_parameters(net);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const int range = static_cast<int>(parameters.size() - 1 - i);
    EXPECT_EQ(parameters[i].parameter->value.raw(), arena.values().part(range).raw());
    EXPECT_EQ(arena.leaves()[static_cast<size_t>(range)]->name(), parameters[i].name);
  }
}

// Feature 134: clearing costs no pass over memory, the next gradient overwrites.
TEST(ParameterArena, ClearedGradientsAreOverwrittenAndMissingOnesNamed) {
  Outer net;
  ParameterArena arena(net, DType::f64, test::device());
  initialise(net, 1);
  const Tensor x = test::full({2, 8}, 1.0, DType::f64);
  const auto run = [&] { backward(net.last.forward(x), test::full({2, 3}, 1.0, DType::f64)); };
  run();
  const Tensor bias_gradient = arena.gradients().part(0);
  EXPECT_EQ(bias_gradient.to_vector<double>(), (std::vector<double>{2, 2, 2}));
  run();
  EXPECT_EQ(bias_gradient.to_vector<double>(), (std::vector<double>{4, 4, 4}));
  arena.clear_gradients();
  EXPECT_EQ(arena.missing_gradients().size(), 10u);
  run();
  EXPECT_EQ(bias_gradient.to_vector<double>(), (std::vector<double>{2, 2, 2}));
  EXPECT_EQ(arena.missing_gradients().size(), 8u);
  arena.gradients().part(9).fill(7.0);
  arena.zero_missing_gradients();
  EXPECT_EQ(arena.gradients().part(9).to_vector<double>()[0], 0.0);
  EXPECT_EQ(bias_gradient.to_vector<double>(), (std::vector<double>{2, 2, 2}));
}

double deviation(const Tensor& t) {
  double sum = 0, squares = 0;
  const std::vector<float> v = t.to_vector<float>();
  for (const float x : v) {
    sum += static_cast<double>(x);
    squares += static_cast<double>(x) * static_cast<double>(x);
  }
  const double n = static_cast<double>(v.size());
  return std::sqrt(squares / n - sum / n * (sum / n));
}

// Feature 122 (Xavier: std sqrt(2 / (in + out)), biases 0) and the others; the relative error of a
// sample standard deviation of n normal numbers is 1/sqrt(2n): 4 sigma at n = 55296 is 1.2 %.
TEST(Init, HasTheDeviationItPromises) {
  struct Net : Module {
    Linear linear{256, 216, Bias::yes};
    Conv3d conv{64, 32, Dims3::all(3), Bias::no};
    Conv3d plain = Conv3d::linear_gain(64, 32, Dims3::all(3), Bias::no);
    void visit(Visitor& v) override {
      v.child("linear", linear);
      v.child("conv", conv);
      v.child("plain", plain);
    }
  } net;
  ParameterArena arena(net, DType::f32, test::device());
  initialise(net, 3);
  std::map<std::string, Tensor> value;
  for (const auto& p : named_parameters(net)) value[p.name] = p.parameter->value.detach();
  EXPECT_NEAR(deviation(value["linear.weight"]) / std::sqrt(2.0 / (256 + 216)), 1.0, 0.012);
  for (const float b : value["linear.bias"].to_vector<float>()) EXPECT_EQ(b, 0.0f);
  EXPECT_NEAR(deviation(value["conv.weight"]) / std::sqrt(2.0 / (64 * 27)), 1.0, 0.012);
  EXPECT_NEAR(deviation(value["plain.weight"]) / std::sqrt(1.0 / (3.0 * 64 * 27)), 1.0, 0.012);
}

TEST(Init, DependsOnSeedAndNameOnly) {
  Outer x, y, z;
  ParameterArena ax(x, DType::f32, test::device()), ay(y, DType::f32), az(z, DType::f64);
  initialise(x, 0);
  initialise(y, 0);
  initialise(z, 0);
  EXPECT_EQ(ax.values().all().to_vector<float>(), ay.values().all().to_vector<float>());
  // f64 starts from the same numbers.
  EXPECT_EQ(ax.values().all().to(DType::f64).to_vector<double>(),
            az.values().all().to_vector<double>());
  initialise(y, 1);
  EXPECT_NE(ax.values().all().to_vector<float>(), ay.values().all().to_vector<float>());
  const auto p = named_parameters(x);
  EXPECT_NE(p[0].parameter->value.to_vector<float>(), p[4].parameter->value.to_vector<float>());
}

// Numbers of the key (seed, full name), whatever the number of threads.
TEST(Init, DrawsFromTheKeyOfTheName) {
  struct Net : Module {
    Conv3d rectified{16, 32, Dims3::all(3), Bias::yes};
    Conv3d plain = Conv3d::linear_gain(16, 32, Dims3::all(3), Bias::no);
    void visit(Visitor& v) override {
      v.child("rectified", rectified);
      v.child("plain", plain);
    }
  } net;
  ParameterArena arena(net, DType::f32, test::device());
  const auto start = [&](int threads) {
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    initialise(net, 9);
    omp_set_num_threads(before);
    return arena.values().all().to_vector<float>();
  };
  const std::vector<float> one = start(1);
  EXPECT_EQ(one, start(3));
  for (const auto& [name, p] : named_parameters(net)) {
    const std::vector<float> v = p->value.to_vector<float>();
    const RngKey key{9, rng_stream(name)};
    for (size_t i = 0; i < v.size(); ++i) {
      const double wanted = p->init.kind == Init::Kind::constant ? p->init.value
                            : p->init.kind == Init::Kind::normal
                                ? p->init.value * key.normal(i)
                                : p->init.value * (2.0 * static_cast<double>(key.uniform(i)) - 1.0);
      // Rounded to f32 once.
      ASSERT_NEAR(static_cast<double>(v[i]), wanted, 0x1.0001p-24 * std::abs(wanted) + 1e-15)
          << name << ' ' << i;
    }
  }
}

// Feature 105.
TEST(Norm, GroupsAreTheLargestDivisorUpToEight) {
  const std::vector<std::pair<int64_t, int64_t>> wanted{
      {1, 1},  {2, 2},  {3, 3},  {7, 7},  {8, 8},  {9, 3},  {10, 5}, {11, 1}, {12, 6},
      {16, 8}, {20, 5}, {24, 8}, {28, 7}, {30, 6}, {31, 1}, {36, 6}, {320, 8}};
  for (const auto& [channels, groups] : wanted)
    EXPECT_EQ(group_count(channels), groups) << channels;
  EXPECT_EQ(group_count(12, 4), 4);
  EXPECT_EQ(group_count(12, 5), 4);
  EXPECT_EQ(group_count(12, 1), 1);
  EXPECT_EQ(group_count(12, 100), 12);
  EXPECT_THROW(group_count(0), Error);
  EXPECT_THROW(group_count(-8), Error);
  EXPECT_THROW(group_count(8, 0), Error);
}

}  // namespace
}  // namespace bora::nn
