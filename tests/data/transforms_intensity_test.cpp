// SPDX-License-Identifier: Apache-2.0
// Noise, blur, brightness, contrast, low resolution, gamma, against scipy, numpy and plain loops in
// f64.  Features 79, 101.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "data/transforms/axis_filter.hpp"
#include "data/transforms/intensity.hpp"
#include "data/transforms/power.hpp"
#include "data/transforms/transforms.hpp"
#include "tests/data/transforms_support.hpp"
#include "tests/support/tolerance.hpp"

namespace bora::data::test {
namespace {

constexpr double kUnit = 0x1p-24;  // of f32

std::vector<double> wide(const Tensor& t) { return t.to(DType::f64).to_vector<double>(); }
Plane volume() { return {scipy("volume").tensor(DType::f32), {}}; }

TEST(UnitPower, FollowsPow) {
  for (const double g : {0.1, 0.7, 1.0, 1.5, 3.0, 10.0})
    for (const double t : {1.0, 1 - 0x1p-24, 0.75, 0.70710678, 0.5, 0.3, 1e-3, 1e-10, 1e-29}) {
      const double wanted = std::pow(t, g);
      EXPECT_NEAR(wanted, unit_power(t, g), wanted * 1e-12) << t << "^" << g;
    }
  EXPECT_EQ(0.0, unit_power(0, 0.7));
  EXPECT_EQ(1.0, unit_power(1, 0.7));
}

TEST(Blur, MatchesScipy) {
  // Three sums of up to 21 numbers below 4, weights rounded too.
  const double bound = 3 * (21 + 2) * kUnit * 4;
  for (const double sigma : {0.6, 1.0, 2.5}) {
    char name[32];
    std::snprintf(name, sizeof name, "blur_%g", sigma);
    const Tensor got = gaussian_blur(volume().values, sigma);
    EXPECT_EQ("", bora::test::differences(wide(got), scipy(name).values, bound)) << sigma;
  }
}

TEST(Blur, WorksAtAnySizeAndKeepsConstants) {
  for (const Shape& s : {Shape{1, 1, 1}, Shape{1, 17, 33}, Shape{2, 3, 1}, Shape{40, 1, 130}}) {
    const Tensor constant = Tensor::full(s, 3, DType::f32);
    for (const float v : gaussian_blur(constant, 1.3).to_vector<float>())
      EXPECT_NEAR(3.0, static_cast<double>(v), 3 * 16 * kUnit * 3) << s;
    for (const float v : low_resolution(constant, 0.5, {true, true, true}).to_vector<float>())
      EXPECT_NEAR(3.0, static_cast<double>(v), 6 * 16 * kUnit * 3) << s;
  }
}

/// Along each axis the same numbers: lines along z are filtered by other loops than those along x.
TEST(FilterAxis, IsTheSameAlongEachAxis) {
  for (const int64_t n : {1, 5, 16, 37})
    for (const int64_t lines : {1, 15, 16, 17, 150}) {
      const AxisWeights w = gaussian_weights(n, 0.9);
      const Tensor z = normal_tensor({lines, 1, n}, 4);
      const Tensor along_z = filter_axis(z, 2, w);
      Tensor x = Tensor::empty({n, 1, lines}, DType::f32);
      for (int64_t i = 0; i < lines; ++i)
        for (int64_t j = 0; j < n; ++j) x.data<float>()[j * lines + i] = z.data<float>()[i * n + j];
      const Tensor along_x = filter_axis(x, 0, w);
      const Tensor along_y = filter_axis(x.reshape({1, n, lines}), 1, w);
      for (int64_t i = 0; i < lines; ++i)
        for (int64_t j = 0; j < n; ++j) {
          // The order is the same; a sum may be fused to its product or not.
          const auto wanted = static_cast<double>(along_x.data<float>()[j * lines + i]);
          EXPECT_NEAR(wanted, static_cast<double>(along_z.data<float>()[i * n + j]), 1e-6);
          EXPECT_EQ(along_x.data<float>()[j * lines + i], along_y.data<float>()[j * lines + i]);
        }
    }
}

TEST(LowResolution, MatchesNumpy) {
  const Tensor got = low_resolution(volume().values, 0.56, {true, false, false});
  EXPECT_EQ("", bora::test::differences(wide(got), scipy("low_0.56_x").values, 16 * kUnit * 4));
  EXPECT_TRUE(
      equal<float>(volume().values, low_resolution(volume().values, 1, {true, true, true})));
}

TEST(Contrast, MatchesNumpy) {
  Plane p = volume();
  change_contrast(p, 1.25);
  EXPECT_EQ("",
            bora::test::differences(wide(p.values), scipy("contrast_1.25").values, 8 * kUnit * 4));
}

TEST(Gamma, MatchesNumpy) {
  const double bound = 8 * kUnit * 4;  // the result is rounded once or twice, at size 4
  Plane p = volume();
  change_gamma(p, 1.4, GammaOf::image, GammaMoments::as_they_come);
  EXPECT_EQ("", bora::test::differences(wide(p.values), scipy("gamma_1.4").values, bound));
  p = volume();
  change_gamma(p, 1.4, GammaOf::image, GammaMoments::kept);
  EXPECT_EQ("", bora::test::differences(wide(p.values), scipy("gamma_1.4_moments").values, bound));
  p = volume();
  change_gamma(p, 0.7, GammaOf::inverted_image, GammaMoments::as_they_come);
  EXPECT_EQ("", bora::test::differences(wide(p.values), scipy("gamma_0.7_inverted").values, bound));
}

TEST(Gamma, LeavesAnImageOfOneValueAndKeepsMoments) {
  Plane flat{Tensor::full({3, 2, 1}, 2.5, DType::f32), {}};
  change_gamma(flat, 2, GammaOf::image, GammaMoments::kept);
  for (const float v : flat.values.to_vector<float>()) EXPECT_EQ(2.5f, v);
  Plane p{normal_tensor({20, 21, 22}, 5), {}};
  const PlaneStatistics before = statistics_of(p);
  change_gamma(p, 0.5, GammaOf::image, GammaMoments::kept);
  const PlaneStatistics after = statistics_of(p);
  EXPECT_NEAR(before.mean, after.mean, 1e-6);
  EXPECT_NEAR(before.sigma, after.sigma, 1e-6);
}

TEST(Noise, HasTheStatedMomentsAndItsOwnNumbers) {
  constexpr int64_t kCells = 64 * 65 * 66;
  Plane p{Tensor::zeros({64, 65, 66}, DType::f32), {}};
  const RngKey key{4, 5};
  add_noise(p, 0.25, key);
  const PlaneStatistics s = statistics_of(p);
  // Five standard errors of the mean and of sigma.
  EXPECT_NEAR(0, s.mean, 5 * 0.25 / std::sqrt(double{kCells}));
  EXPECT_NEAR(0.25, s.sigma, 5 * 0.25 / std::sqrt(2.0 * kCells));
  for (const int64_t i : {int64_t{0}, int64_t{1}, int64_t{16383}, int64_t{16384}, kCells - 1})
    EXPECT_NEAR(0.25 * key.normal(static_cast<uint64_t>(i)),
                static_cast<double>(p.values.data<float>()[i]), 1e-6);
}

TEST(Statistics, AreOfCountedCells) {
  Plane p{normal_tensor({5, 7, 3}, 6), label_tensor({5, 7, 3}, 2, 7)};
  double n = 0, sum = 0, square = 0, low = 1e9, high = -1e9;
  for (int64_t i = 0; i < p.values.numel(); ++i) {
    if (p.counted.data<uint8_t>()[i] == 0) {
      p.values.data<float>()[i] = 1e6f;
      continue;
    }
    const auto x = static_cast<double>(p.values.data<float>()[i]);
    n += 1;
    sum += x;
    square += x * x;
    low = std::min(low, x);
    high = std::max(high, x);
  }
  const PlaneStatistics s = statistics_of(p);
  EXPECT_EQ(n, static_cast<double>(s.count));
  EXPECT_NEAR(sum / n, s.mean, 1e-13);
  EXPECT_NEAR(std::sqrt(square / n - sum / n * sum / n), s.sigma, 1e-12);
  EXPECT_EQ(low, static_cast<double>(s.low));
  EXPECT_EQ(high, static_cast<double>(s.high));
  p.counted = Tensor::zeros({5, 7, 3}, DType::u8);
  EXPECT_EQ(0, statistics_of(p).count);
  const std::vector<float> before = p.values.to_vector<float>();
  change_gamma(p, 2, GammaOf::image, GammaMoments::kept);
  change_contrast(p, 2);
  EXPECT_EQ(before, p.values.to_vector<float>());
}

TransformConfig all_on() {
  TransformConfig c;
  c.noise = {0.05, 0.1};
  c.blur = {0.5, 1};
  c.brightness = {-0.2, 0.2};
  c.contrast = {0.75, 1.25};
  c.low_resolution = {0.5, 0.9};
  c.gamma = {0.7, 1.5};
  c.noise_probability = c.blur_probability = c.brightness_probability = c.contrast_probability =
      c.low_resolution_probability = c.gamma_probability = c.gamma_inverted_probability = 1;
  return c;
}

TEST(ApplyIntensity, ChangesTheInputsValidCellsOnly) {
  for (const Dims3& n : {Dims3{9, 8, 7}, Dims3{1, 1, 1}, Dims3{1, 20, 3}})
    for (const int64_t channels : {1, 3}) {
      Sample s = random_sample(n, channels, 8);
      s.valid = label_tensor({n.d, n.h, n.w}, 2, 9);
      const Sample before = s;  // shares the tensors: they must not be written
      const std::vector<float> input = s.input.to_vector<float>();
      apply_intensity(s, all_on(), {1, 2});
      EXPECT_EQ(input, before.input.to_vector<float>());
      EXPECT_TRUE(equal<uint8_t>(before.target, s.target));
      EXPECT_TRUE(equal<uint8_t>(before.region, s.region));
      EXPECT_TRUE(equal<float>(before.weight, s.weight));
      int64_t n_same = 0, n_padding = 0;
      for (int64_t i = 0; i < s.input.numel(); ++i) {
        const float v = s.input.data<float>()[i];
        EXPECT_TRUE(std::isfinite(v));
        const bool same = v == input[static_cast<size_t>(i)];
        if (s.valid.data<uint8_t>()[i / channels] == 0) {
          EXPECT_TRUE(same);
          ++n_padding;
        } else {
          n_same += same ? 1 : 0;
        }
      }
      if (n.count() > 100) {
        EXPECT_LT(n_same, 5);
      }
      if (n.count() > 1) {
        EXPECT_GT(n_padding, 0);
      }
    }
}

TEST(ApplyIntensity, IsAPureFunctionOfTheKey) {
  const auto make = [](const TransformConfig& c, uint64_t i) {
    Sample s = random_sample({8, 9, 10}, 2, 8);
    apply_intensity(s, c, {7, i});
    return s.input.to_vector<float>();
  };
  EXPECT_EQ(make(all_on(), 1), make(all_on(), 1));
  EXPECT_NE(make(all_on(), 1), make(all_on(), 2));
  // Noise alone: the same numbers whatever else is switched on; each channel has its own.
  TransformConfig noise;
  noise.noise = {0.5, 0.5};
  noise.noise_probability = 1;
  TransformConfig brighter = noise;
  brighter.brightness = {1, 1};
  brighter.brightness_probability = 1;
  const auto plain = make({}, 1), a = make(noise, 1), b = make(brighter, 1);
  for (size_t i = 0; i < a.size(); i += 2) {
    EXPECT_NEAR(static_cast<double>(a[i]) + 1, static_cast<double>(b[i]), 1e-6);
    EXPECT_NE(a[i] - plain[i], a[i + 1] - plain[i + 1]);
  }
}

TEST(ApplyIntensity, HappensAsOftenAsAsked) {
  TransformConfig c;
  c.brightness = {1, 2};
  c.brightness_probability = 0.15;
  constexpr int kDraws = 4000;
  int n_changed = 0;
  for (int i = 0; i < kDraws; ++i) {
    Sample s = random_sample({1, 1, 2}, 1, 3);
    const float before = s.input.data<float>()[0];
    apply_intensity(s, c, {7, rng_stream("augment", 1, static_cast<uint64_t>(i))});
    const auto change = static_cast<double>(s.input.data<float>()[0] - before);
    EXPECT_TRUE(change == 0 || (change > 1 - 1e-5 && change < 2 + 1e-5)) << change;
    n_changed += change != 0 ? 1 : 0;
  }
  // Five standard deviations of the binomial distribution.
  EXPECT_NEAR(kDraws * 0.15, n_changed, 5 * std::sqrt(kDraws * 0.15 * 0.85));
}

}  // namespace
}  // namespace bora::data::test
