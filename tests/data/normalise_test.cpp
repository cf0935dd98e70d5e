// SPDX-License-Identifier: Apache-2.0
// Rows 93 (padding is not air), 95, 96, 97 (normalisation) without files.
#include "data/normalise.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "comm/communicator.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/support/map_visitor.hpp"

namespace bora::data::test {
namespace {

using bora::testing::MapVisitor;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Cells with the given target, region and validity, in a row along x.
Sample sample_of(const std::vector<float>& target, const std::vector<uint8_t>& region,
                 const std::vector<uint8_t>& valid) {
  const int64_t n = static_cast<int64_t>(target.size());
  Sample s;
  s.name = "case";
  s.target = Tensor::from(Shape{n, 1, 1, 1}, target);
  s.region = Tensor::from(Shape{n, 1, 1}, region);
  s.valid = Tensor::from(Shape{n, 1, 1}, valid);
  return s;
}

std::vector<float> field(size_t n, double mean, double sigma) {
  const RngKey key{5, 6};
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = static_cast<float>(mean + sigma * key.normal(i));
  return v;
}

TEST(Moments, CountOnlyTheRegion) {
  const std::vector<float> v = {1, 100, 3, 200, 5};
  const std::vector<uint8_t> region = {1, 0, 1, 0, 1};
  const Moments m = Moments::of(v.data(), region.data(), 5);
  EXPECT_EQ(m.n, 3);
  EXPECT_EQ(m.mean, 3);
  EXPECT_EQ(m.m2, 8);
  EXPECT_EQ(Moments::of(v.data(), region.data(), 0).n, 0);
}

TEST(Moments, MergingEqualsTheWhole) {
  // A mean far above sigma: E[x^2] - E[x]^2 in f32 would lose everything.
  const std::vector<float> v = field(10007, 1000, 0.01);
  const std::vector<uint8_t> region(v.size(), 1);
  const Moments whole = Moments::of(v.data(), region.data(), static_cast<int64_t>(v.size()));
  long double sum = 0, square = 0;
  for (float x : v) sum += x;
  for (float x : v) square += (x - sum / v.size()) * (x - sum / v.size());
  EXPECT_NEAR(whole.mean, static_cast<double>(sum / v.size()), 1e-9);
  EXPECT_NEAR(whole.m2 / static_cast<double>(square), 1, 1e-9);
  Moments merged;
  for (size_t at = 0, step = 1; at < v.size(); at += step, ++step)
    merged = merged.merged(Moments::of(v.data() + at, region.data(),
                                       static_cast<int64_t>(std::min(step, v.size() - at))));
  EXPECT_EQ(merged.n, whole.n);
  EXPECT_NEAR(merged.mean, whole.mean, 1e-9);
  EXPECT_NEAR(merged.m2 / whole.m2, 1, 1e-9);
  EXPECT_EQ(Moments().merged(whole).m2, whole.m2);
  EXPECT_EQ(whole.merged(Moments()).m2, whole.m2);
}

TEST(Normaliser, PerSampleGivesMeanZeroSigmaOneAndZeroBuildings) {
  std::vector<float> v = field(5000, 7, 2);
  std::vector<uint8_t> region(v.size(), 1), valid(v.size(), 1);
  for (size_t i = 0; i < v.size(); i += 3) region[i] = 0, v[i] = 0;
  for (size_t i = 0; i < 300; ++i) region[i] = valid[i] = 0, v[i] = 1e6f;  // padding
  Sample s = sample_of(v, region, valid);
  Normaliser(NormMode::per_sample).apply(s);
  const float* t = s.target.data<float>();
  const Moments m = Moments::of(t, region.data(), s.region.numel());
  // Each of the values is off by at most 2^-24 of itself, |t| < 5.
  EXPECT_NEAR(m.mean, 0, 5 * 0x1p-24);
  EXPECT_NEAR(std::sqrt(m.variance()), 1, 5 * 0x1p-24);
  for (size_t i = 0; i < v.size(); ++i)
    if (region[i] == 0) {
      EXPECT_EQ(t[i], 0);
    }
}

TEST(Normaliser, ConstantAndAllBuildingSamplesGiveNoNaN) {
  const std::vector<uint8_t> open(100, 1), none(100, 0);
  std::vector<float> nearly(100, 0.1f);
  nearly[7] = std::nextafter(0.1f, 1.0f);
  for (const auto& [values, region] :
       {std::pair{std::vector<float>(100, 4.0f), open},
        std::pair{std::vector<float>(100, 0.0f), open},
        std::pair{std::vector<float>(100, 4.0f), none}, std::pair{nearly, open}}) {
    Sample s = sample_of(values, region, open);
    Normaliser(NormMode::per_sample).apply(s);
    EXPECT_EQ(s.scaling.sigma, 1);
    for (int64_t i = 0; i < 100; ++i) EXPECT_LT(std::abs(s.target.data<float>()[i]), 1e-6) << i;
  }
}

const Scaling kStored{6.987654321, 1.718447};

/// The distance from |x| to the next f32.
double ulp(float x) {
  const float a = std::abs(x);
  return static_cast<double>(std::nextafter(a, INFINITY)) - static_cast<double>(a);
}

// Row 97: exactly what the stored scaling says.  The reference has 64 bits: it is off by 2^-64 of
// the larger term, here 2^-12 units of the smallest result at most.  The fma in f64 adds 2^-53 of
// the result before the rounding to f32.
TEST(Normaliser, DenormaliseIsTheNearestFloat) {
  std::vector<float> z = field(10007, 0, 1);
  // Around -mean / sigma the terms cancel.
  float near = static_cast<float>(-kStored.mean / kStored.sigma);
  for (int i = 0; i < 8; ++i) near = std::nextafter(near, 0.0f);
  for (int i = 0; i < 16; ++i) z.push_back(near = std::nextafter(near, -INFINITY));
  for (float edge : {0.0f, -0.0f, 1e-38f, 1e30f, -1e30f}) z.push_back(edge);
  Tensor t = Tensor::from(Shape{static_cast<int64_t>(z.size())}, z);
  denormalise(t, kStored);
  for (size_t i = 0; i < z.size(); ++i) {
    const float x = t.data<float>()[i];
    const long double exact = static_cast<long double>(z[i]) * kStored.sigma + kStored.mean;
    EXPECT_LE(std::abs(static_cast<double>(x - exact)), 0.5002 * ulp(x)) << z[i];
  }
}

// There and back.  z carries an error of 2^-24 |z| at most, so before the last rounding x is off by
// 2^-24 |x - mean|; half a unit in the last place of x is 2^-25 |x| at least.
TEST(Normaliser, DenormaliseGoesBackToTheBitOrWithinTwoRoundings) {
  std::vector<float> v = field(10007, 7, 3);
  for (int i = 0; i < 5; ++i) v.push_back(std::ldexp(1.0f, i));  // a smaller unit below than above
  v.push_back(0.0f);                                             // a building
  Tensor t = Tensor::from(Shape{static_cast<int64_t>(v.size())}, v);
  normalise(t, kStored);
  denormalise(t, kStored);
  size_t to_the_bit = 0;
  for (size_t i = 0; i < v.size(); ++i) {
    const double x = v[i], off = std::abs(x - kStored.mean);
    if (off < 0.4999 * std::abs(x)) {
      EXPECT_EQ(t.data<float>()[i], v[i]);
      ++to_the_bit;
    }
    EXPECT_LE(std::abs(t.data<float>()[i] - x), 0x1p-24 * (std::abs(x) + off) * 1.0000001) << x;
  }
  EXPECT_GT(to_the_bit, v.size() / 2);
}

Moments moments_of(int64_t index) {
  const std::vector<float> v =
      field(100 + static_cast<size_t>(index), 5.0 + static_cast<double>(index), 1);
  return Moments::of(v.data(), std::vector<uint8_t>(v.size(), 1).data(),
                     static_cast<int64_t>(v.size()));
}

TEST(Normaliser, GlobalUsesOnlyTheCasesItIsGiven) {
  const auto self = make_self_communicator();
  Normaliser n(NormMode::global);
  EXPECT_FALSE(n.is_ready());
  Sample s = sample_of({1, 2}, {1, 1}, {1, 1});
  EXPECT_THAT(message_of([&] { n.apply(s); }), HasSubstr("before they were fitted"));
  std::vector<int64_t> seen;
  n.fit(
      {4, 2},
      [&](int64_t i) {
        seen.push_back(i);
        return moments_of(i);
      },
      *self);
  EXPECT_EQ(seen, (std::vector<int64_t>{4, 2}));
  EXPECT_TRUE(n.is_ready());
  EXPECT_EQ(n.moments().n, 104 + 102);
  n.apply(s);
  EXPECT_EQ(s.scaling.mean, n.scaling().mean);
  EXPECT_EQ(s.target.data<float>()[0],
            static_cast<float>((1 - n.scaling().mean) / n.scaling().sigma));
}

TEST(Normaliser, GlobalKeepsBuildingsAndZeroesPadding) {
  const auto self = make_self_communicator();
  Normaliser n(NormMode::global);
  n.fit({1}, moments_of, *self);
  Sample s = sample_of({3, 0, 0}, {1, 0, 0}, {1, 1, 0});
  n.apply(s);
  Tensor back = s.target.clone();
  denormalise(back, s.scaling);
  EXPECT_NEAR(back.data<float>()[1], 0, 1e-6);  // a building: 0 m/s again
  EXPECT_EQ(s.target.data<float>()[2], 0);      // padding: the mean, whatever it is
}

TEST(Normaliser, NothingToMeasureIsAnError) {
  const auto self = make_self_communicator();
  Normaliser n(NormMode::global);
  EXPECT_THAT(message_of([&] {
                n.fit(
                    {1, 2}, [](int64_t) { return Moments(); }, *self);
              }),
              HasSubstr("no open cell in 2 training cases"));
  EXPECT_THAT(message_of([&] {
                n.fit(
                    {1},
                    [](int64_t) {
                      return Moments{1, NAN, 0};
                    },
                    *self);
              }),
              HasSubstr("mean nan"));
  EXPECT_THAT(message_of<UsageError>([] { norm_mode_from("globl"); }),
              HasSubstr("wanted global, per_sample or none"));
}

TEST(Normaliser, StateRestoresTheSameBitsAndRefusesAnotherMode) {
  const auto self = make_self_communicator();
  Normaliser n(NormMode::global);
  n.fit({1, 2, 3}, moments_of, *self);
  MapVisitor::Map saved;
  MapVisitor save(saved, false), state(saved, true);
  n.state(save);
  Normaliser again(NormMode::global);
  again.state(state);
  EXPECT_EQ(again.scaling().mean, n.scaling().mean);
  EXPECT_EQ(again.scaling().sigma, n.scaling().sigma);
  EXPECT_EQ(again.moments().n, n.moments().n);
  Normaliser other(NormMode::per_sample);
  EXPECT_THAT(message_of([&] { other.state(state); }),
              AllOf(HasSubstr("'global'"), HasSubstr("'per_sample'")));
}

}  // namespace
}  // namespace bora::data::test
