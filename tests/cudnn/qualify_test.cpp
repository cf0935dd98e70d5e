// SPDX-License-Identifier: Apache-2.0
// Plans are qualified against an own kernel: right engines pass, a wrong value at one place shows.
#include "kernels/cudnn/qualify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/conv3d_reference.hpp"
#include "kernels/cudnn/add_bias.hpp"
#include "tests/kernels/conv_support.hpp"

namespace bora::kernels::cudnn {
namespace {

using test::ConvCase;

std::vector<ConvCase> cases() {
  return {
      {2, {5, 6, 7}, Dims3::all(3), 4, 6, {.padding = Dims3::all(1)}},
      {2, {6, 4, 8}, Dims3::all(2), 3, 5, {.stride = Dims3::all(2)}},
      {1, {7, 7, 5}, Dims3::all(3), 4, 8, {.padding = Dims3::all(2), .dilation = Dims3::all(2)}},
      {1, {5, 5, 5}, Dims3::all(3), 6, 4, {.stride = {1, 2, 1}, .padding = {1, 1, 0}, .groups = 2}},
      {3, {4, 4, 4}, Dims3::all(1), 1, 1, {}},
  };
}

ConvKey key_for(const ConvCase& c, ConvPass pass, DType type, bool bias = false, bool add = false) {
  return key_of(pass, problem_of(c.a, c.x(), c.w(), c.y()), type, bias, add, 16, {});
}

/// A right engine.
void compute(const ConvCase& c, const ConvKey& key, const Tensor& first, const Tensor& second,
             const Tensor& bias, Tensor& result) {
  switch (key.pass) {
    case ConvPass::forward:
      return reference::conv3d_forward(c.a, first, second, bias, result);
    case ConvPass::backward_data:
      return reference::conv3d_backward_data(c.a, first, second, Tensor(), result);
    case ConvPass::backward_weights:
      return reference::conv3d_backward_weights(
          c.a, first, second, key.add ? GradientMode::add : GradientMode::overwrite, result);
  }
}

class Qualify : public ::testing::TestWithParam<DType> {};

TEST_P(Qualify, ARightEnginePassesInAllPasses) {
  for (const ConvCase& c : cases()) {
    for (const ConvPass pass :
         {ConvPass::forward, ConvPass::backward_data, ConvPass::backward_weights}) {
      for (const bool option : {false, true}) {
        const ConvKey key = key_for(c, pass, GetParam(), option && pass == ConvPass::forward,
                                    option && pass == ConvPass::backward_weights);
        SCOPED_TRACE(text_of(key));
        EXPECT_EQ(qualify(
                      current_stream(bora::cpu()), key,
                      [&](const Tensor& first, const Tensor& second, const Tensor& bias,
                          Tensor& result) { compute(c, key, first, second, bias, result); },
                      5),
                  "");
      }
    }
  }
}

TEST_P(Qualify, OneWrongValueShows) {
  for (const ConvCase& c : cases()) {
    for (const ConvPass pass :
         {ConvPass::forward, ConvPass::backward_data, ConvPass::backward_weights}) {
      const ConvKey key = key_for(c, pass, GetParam());
      SCOPED_TRACE(text_of(key));
      const int64_t n = shapes_of(key).result.numel();
      for (const int64_t place : {int64_t{0}, n / 2, n - 1}) {
        const std::string fault = qualify(
            current_stream(bora::cpu()), key,
            [&](const Tensor& first, const Tensor& second, const Tensor& bias, Tensor& result) {
              compute(c, key, first, second, bias, result);
              // What one missing product would do.
              Tensor element = result.view(place, {1});
              element.fill(element.item() + 0.5);
            },
            5);
        EXPECT_THAT(fault, ::testing::HasSubstr("1 of ")) << place;
      }
    }
  }
}

TEST_P(Qualify, WhatIsNotWrittenShows) {
  const ConvCase c = cases()[0];
  const ConvKey key = key_for(c, ConvPass::forward, GetParam());
  EXPECT_NE(qualify(
                current_stream(bora::cpu()), key,
                [&](const Tensor& first, const Tensor& second, const Tensor& bias, Tensor& result) {
                  compute(c, key, first, second, bias, result);
                  result.view(17, {1}).fill(NAN);
                },
                5),
            "");
}

TEST_P(Qualify, AForgottenBiasAndAForgottenAdditionShow) {
  const ConvCase c = cases()[0];
  const ConvKey bias = key_for(c, ConvPass::forward, GetParam(), true);
  EXPECT_NE(qualify(
                current_stream(bora::cpu()), bias,
                [&](const Tensor& first, const Tensor& second, const Tensor&, Tensor& result) {
                  compute(c, bias, first, second, Tensor(), result);
                },
                5),
            "");
  const ConvKey add = key_for(c, ConvPass::backward_weights, GetParam(), false, true);
  ConvKey plain = add;
  plain.add = 0;
  EXPECT_NE(qualify(
                current_stream(bora::cpu()), add,
                [&](const Tensor& first, const Tensor& second, const Tensor&, Tensor& result) {
                  compute(c, plain, first, second, Tensor(), result);
                },
                5),
            "");
}

INSTANTIATE_TEST_SUITE_P(Types, Qualify, ::testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& i) { return std::string(name_of(i.param)); });

TEST(QualifySamples, HoldCornersFacesAndTheLastElement) {
  const Shape s{2, 40, 50, 60, 32};
  const std::vector<int64_t> p = sample_positions(s, 4096, 3);
  EXPECT_TRUE(std::is_sorted(p.begin(), p.end()));
  EXPECT_GT(p.size(), 4000u);
  EXPECT_LE(p.size(), 4096u);
  EXPECT_EQ(p.front(), 0);
  EXPECT_EQ(p.back(), s.numel() - 1);
  for (int corner = 0; corner < 32; ++corner) {
    int64_t at = 0;
    for (int i = 0; i < 5; ++i) at = at * s[i] + (corner >> i & 1 ? s[i] - 1 : 0);
    EXPECT_TRUE(std::binary_search(p.begin(), p.end(), at)) << corner;
  }
  for (int axis = 0; axis < 5; ++axis) {
    int64_t inner = 1;
    for (int i = axis + 1; i < 5; ++i) inner *= s[i];
    const auto on_face = [&](int64_t at, int64_t face) { return at / inner % s[axis] == face; };
    for (const int64_t face : {int64_t{0}, s[axis] - 1})
      EXPECT_GT(std::count_if(p.begin(), p.end(), [&](int64_t at) { return on_face(at, face); }),
                90);
  }
  EXPECT_EQ(p, sample_positions(s, 4096, 3)) << "the same each time";
}

TEST(QualifySamples, SmallResultsAreLookedAtAsAWhole) {
  EXPECT_EQ(sample_positions({1, 2, 2, 2, 3}, 4096, 1).size(), 24u);
  EXPECT_THROW(sample_positions({1, 0, 2, 2, 3}, 10, 1), Error);
}

TEST(QualifySamples, BeyondTwoToThe31) {
  const Shape s{1, 512, 512, 512, 64};
  const std::vector<int64_t> p = sample_positions(s, 4096, 1);
  EXPECT_EQ(p.back(), s.numel() - 1);
  EXPECT_GT(std::count_if(p.begin(), p.end(), [](int64_t at) { return at > int64_t{1} << 31; }),
            2000);
}

TEST(QualifySamples, LongSumsGetFewer) {
  const ConvCase small{1, {4, 4, 4}, Dims3::all(3), 2, 2, {.padding = Dims3::all(1)}};
  EXPECT_EQ(sample_count(key_for(small, ConvPass::forward, DType::f16)), 4096);
  const ConvCase large{7, Dims3::all(128), Dims3::all(3), 32, 32, {.padding = Dims3::all(1)}};
  EXPECT_EQ(sample_count(key_for(large, ConvPass::backward_weights, DType::f16)), 64);
}

// Data that all types hold, and whose sums f32 holds: the order of a sum is of no matter.
TEST(QualifySamples, DataAreExactInAllTypes) {
  Tensor f32 = Tensor::empty({10007}, DType::f32);
  fill_exact(f32.stream(), f32, 9);
  for (const DType type : {DType::f16, DType::bf16}) {
    Tensor half = Tensor::empty({10007}, type);
    fill_exact(half.stream(), half, 9);
    EXPECT_EQ(test::values_of(half), test::values_of(f32));
  }
  const std::vector<float> v = f32.to_vector<float>();
  double sum = 0.0;
  for (const float x : v) {
    EXPECT_LE(std::abs(x), 1.0f);
    EXPECT_EQ(x * 8.0f, std::nearbyint(x * 8.0f));
    sum += static_cast<double>(x);
  }
  EXPECT_LT(std::abs(sum), 4.0 * 0.62 * std::sqrt(10007.0)) << "four standard deviations";
}

TEST(AddBias, AddsToEachRowAndRoundsOnce) {
  for (const int64_t columns : {1, 3, 16, 17}) {
    Tensor y = test::make_tensor({5, columns}, test::normal_values(5 * columns, 2), DType::f16);
    const Tensor bias = test::make_tensor({columns}, test::normal_values(columns, 3), DType::f16);
    const std::vector<double> before = test::values_of(y), b = test::values_of(bias);
    add_bias(y.stream(), bias, y);
    const std::vector<double> after = test::values_of(y);
    for (size_t i = 0; i < after.size(); ++i) {
      const double want = before[i] + b[i % b.size()];
      EXPECT_LE(std::abs(after[i] - want), 0x1p-11 * std::abs(want) + 0x1p-24);
    }
  }
  Tensor y = Tensor::zeros({2, 3}, DType::f32);
  EXPECT_THROW(add_bias(y.stream(), Tensor::zeros({2}, DType::f32), y), Error);
}

}  // namespace
}  // namespace bora::kernels::cudnn
