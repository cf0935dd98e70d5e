// SPDX-License-Identifier: Apache-2.0
// Norms below the tape: hard numbers, joined moments, running statistics.  And fast_math.
#include "kernels/norm.hpp"

#include <gtest/gtest.h>
#include <omp.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/kernels/norm_generic.hpp"
#include "tests/support/device.hpp"
#include "tests/support/random.hpp"
#include "tests/support/tolerance.hpp"

namespace bora::kernels {
namespace {

using test::differences;
using test::make_tensor;
using test::normal_values;
using test::values_of;

/// Distance of `got` from `wanted` in units of the last place of f32 at `wanted`.
double ulps(float got, double wanted) {
  const double magnitude = std::abs(wanted);
  const int exponent = magnitude < 0x1p-126 ? -126 : std::ilogb(magnitude);
  return std::abs(static_cast<double>(got) - wanted) / std::ldexp(1.0, exponent - 23);
}

TEST(FastExp, IsWithinTwoUlpOverTheWholeRange) {
  double worst = 0;
  float worst_at = 0;
  int64_t n = 0;
  // Every 3001st float between -104 and 88.72, subnormal arguments and results included.
  for (uint32_t bits = 0; bits < 0x7f800000u; bits += 3001)
    for (const uint32_t sign : {0u, 0x80000000u}) {
      const auto x = std::bit_cast<float>(bits | sign);
      if (x > 88.72f || x < -104.0f) continue;
      const double error = ulps(fast_exp(x), std::exp(static_cast<double>(x)));
      ++n;
      if (error > worst) {
        worst = error;
        worst_at = x;
      }
    }
  EXPECT_GT(n, 700000);
  EXPECT_LT(worst, 2.0) << "at " << worst_at;
}

TEST(FastExp, HandlesTheEndsOfTheRange) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(kInf, fast_exp(kInf));
  EXPECT_EQ(kInf, fast_exp(88.73f));
  EXPECT_EQ(kInf, fast_exp(3e38f));
  EXPECT_TRUE(std::isfinite(fast_exp(88.72f)));
  EXPECT_EQ(0.0f, fast_exp(-kInf));
  EXPECT_EQ(0.0f, fast_exp(-104.0f));
  EXPECT_EQ(0.0f, fast_exp(-3e38f));
  EXPECT_GT(fast_exp(-103.0f), 0.0f);
  EXPECT_TRUE(std::isnan(fast_exp(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(fast_exp(-std::numeric_limits<float>::quiet_NaN())));
  EXPECT_EQ(1.0f, fast_exp(0.0f));
  EXPECT_EQ(1.0f, fast_exp(-0.0f));
}

TEST(FastExp, SigmoidNeverOverflows) {
  for (const float x : {-3e38f, -200.0f, -89.0f, 0.0f, 89.0f, 3e38f}) {
    const float s = fast_sigmoid(x);
    EXPECT_NEAR(1.0 / (1.0 + std::exp(-static_cast<double>(x))), s, 1e-7) << x;
  }
}

/// y of a norm without gain, offset, residual and activation.
Tensor normalise(const Tensor& x, const NormShape& shape, Tensor* statistics_out = nullptr) {
  const Stream stream = x.stream();
  const DType type = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  Tensor moments = test::empty({shape.samples, 1 + 2 * shape.channels}, DType::f64);
  Tensor statistics = test::empty({shape.samples, shape.groups, 3}, type);
  norm_moments(stream, shape, x, moments);
  norm_statistics(stream, shape, 1e-5, moments, statistics);
  Tensor y = test::empty(x.shape(), x.dtype());
  norm_forward(stream, shape, {},
               {x, statistics, test::full({shape.channels}, 1.0, type),
                test::zeros({shape.channels}, type), Tensor()},
               y);
  if (statistics_out) *statistics_out = statistics;
  return y;
}

// cases.md "norm numerics": squares of 512 overflow f16.
TEST(Norm, F16CheckerboardOf512NormalisesToOne) {
  for (const double size : {512.0, 256.0, 60000.0}) {
    std::vector<double> values;
    for (int i = 0; i < 128; ++i) {
      const int cell = i / 2, d = cell / 16, h = cell / 4 % 4, w = cell % 4;
      values.push_back((d + h + w) % 2 ? -size : size);
    }
    const Tensor x = make_tensor({1, 4, 4, 4, 2}, values, DType::f16);
    for (const int64_t groups : {1, 2}) {
      const std::vector<double> y = values_of(normalise(x, {1, 64, 2, groups}));
      for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(values[i] > 0 ? 1.0 : -1.0, y[i]);
    }
  }
}

// Mean 1e4, sigma 1: an f32 mean is off by up to 5e-4, E[x^2] - E[x]^2 by some 10.
TEST(Norm, LargeMeanKeepsItsSmallVarianceInF32) {
  const int64_t rows = 40000, channels = 3;
  std::vector<double> values = normal_values(rows * channels, 5);
  for (double& v : values) v += 1e4;
  const Tensor x = make_tensor({1, rows, channels}, values, DType::f32);
  const std::vector<double> stored = values_of(x);
  Tensor statistics;
  const std::vector<double> y = values_of(normalise(x, {1, rows, channels, 3}, &statistics));
  const std::vector<float> statistics_values = statistics.to_vector<float>();
  for (int64_t c = 0; c < channels; ++c) {
    double mean = 0, variance = 0;
    for (int64_t r = 0; r < rows; ++r) mean += stored[static_cast<size_t>(r * channels + c)];
    mean /= static_cast<double>(rows);
    for (int64_t r = 0; r < rows; ++r)
      variance += std::pow(stored[static_cast<size_t>(r * channels + c)] - mean, 2);
    variance /= static_cast<double>(rows);
    const float* s = statistics_values.data() + c * 3;
    EXPECT_NEAR(mean, static_cast<double>(s[0]) + static_cast<double>(s[1]), 1e-6);
    EXPECT_NEAR(1.0 / std::sqrt(variance + 1e-5), s[2], 1e-6);
    for (int64_t r = 0; r < rows; r += 997) {
      const auto i = static_cast<size_t>(r * channels + c);
      EXPECT_NEAR((stored[i] - mean) / std::sqrt(variance + 1e-5), y[i], 4e-6);
    }
  }
}

// The first value is the worst possible shift; then a jump between two halves.
TEST(Norm, OutlierAndJumpDoNotSpoilTheVariance) {
  const int64_t rows = 50000;
  for (const bool jump : {false, true}) {
    std::vector<double> values = normal_values(rows, 6);
    if (jump)
      for (int64_t r = rows / 2; r < rows; ++r) values[static_cast<size_t>(r)] += 1e4;
    else
      values[0] = 1e5;
    const Tensor x = make_tensor({1, rows, 1}, values, DType::f32);
    const std::vector<double> stored = values_of(x);
    double mean = 0, m2 = 0;
    for (double v : stored) mean += v / static_cast<double>(rows);
    for (double v : stored) m2 += (v - mean) * (v - mean);
    Tensor moments = test::empty({1, 3}, DType::f64);
    norm_moments(test::stream(), {1, rows, 1, 1}, x, moments);
    EXPECT_EQ(static_cast<double>(rows), moments.to_vector<double>()[0]);
    EXPECT_NEAR(mean, moments.to_vector<double>()[1], 1e-6 * std::abs(mean));
    // Squares in f32 lanes of 32 terms at most: 40 roundings of 2^-24.
    EXPECT_NEAR(m2, moments.to_vector<double>()[2], test::gamma(40, DType::f32) * m2);
  }
}

TEST(Norm, MomentsMatchAtAllSizes) {
  for (const int64_t channels : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 96, 255, 320, 321})
    for (const int64_t rows : {1, 2, 15, 16, 17, 127, 1023, 4100}) {
      if (rows * channels > 400000) continue;
      const std::vector<double> values = normal_values(2 * rows * channels, 7);
      const Tensor x = make_tensor({2, rows, channels}, values, DType::f64);
      Tensor moments = test::empty({2, 1 + 2 * channels}, DType::f64);
      norm_moments(test::stream(), {2, rows, channels, 1}, x, moments);
      std::vector<double> wanted;
      for (int64_t n = 0; n < 2; ++n) {
        std::vector<double> mean(static_cast<size_t>(channels)), m2(mean);
        const auto at = [&](int64_t r, int64_t c) {
          return values[static_cast<size_t>((n * rows + r) * channels + c)];
        };
        for (int64_t c = 0; c < channels; ++c) {
          const auto k = static_cast<size_t>(c);
          for (int64_t r = 0; r < rows; ++r) mean[k] += at(r, c) / static_cast<double>(rows);
          for (int64_t r = 0; r < rows; ++r) m2[k] += std::pow(at(r, c) - mean[k], 2);
        }
        wanted.push_back(static_cast<double>(rows));
        wanted.insert(wanted.end(), mean.begin(), mean.end());
        wanted.insert(wanted.end(), m2.begin(), m2.end());
      }
      EXPECT_EQ("", differences(values_of(moments), wanted, 1e-12 * static_cast<double>(rows)))
          << rows << " rows, " << channels << " channels";
    }
}

// Row 55 at this level: unequal parts, an empty one, parts that differ in mean.
TEST(Norm, JoinedMomentsAreThoseOfTheWhole) {
  const int64_t channels = 5, rows = 300;
  std::vector<double> values = normal_values(rows * channels, 8);
  for (size_t i = 0; i < values.size(); ++i) values[i] += i < values.size() / 2 ? -40.0 : 70.0;
  const Tensor x = make_tensor({rows, channels}, values, DType::f64);
  Tensor whole = test::empty({1, 1 + 2 * channels}, DType::f64);
  norm_moments(test::stream(), {1, rows, channels, channels}, x, whole);
  const std::vector<int64_t> ends{0, 150, 150, 157, 300};  // one part is empty
  Tensor parts = test::full({4, 1 + 2 * channels}, NAN, DType::f64);
  for (int64_t i = 0; i < 4; ++i) {
    const int64_t n = ends[static_cast<size_t>(i) + 1] - ends[static_cast<size_t>(i)];
    Tensor part = parts.rows(i, i + 1);
    norm_moments(test::stream(), {1, n, channels, channels},
                 x.rows(ends[static_cast<size_t>(i)], ends[static_cast<size_t>(i) + 1]), part);
  }
  Tensor joined = test::empty({1, 1 + 2 * channels}, DType::f64);
  norm_join_moments(test::stream(), parts, joined);
  EXPECT_EQ("", differences(values_of(joined), values_of(whole), 1e-9));
}

TEST(Norm, NaNStaysVisible) {
  std::vector<double> values = normal_values(2 * 100 * 4, 9);
  values[5 * 4 + 1] = NAN;
  const Tensor x = make_tensor({2, 100, 4}, values, DType::f32);
  const std::vector<double> y = values_of(normalise(x, {2, 100, 4, 2}));
  EXPECT_TRUE(std::isnan(y[0]));         // the same group
  EXPECT_FALSE(std::isnan(y[2]));        // another group
  EXPECT_FALSE(std::isnan(y[100 * 4]));  // another sample
}

TEST(Norm, SumsHaveTheSameBitsForAnyNumberOfThreads) {
  const NormShape shape{2, 30011, 24, 8};
  const Tensor x = make_tensor({2, 30011, 24}, normal_values(shape.numel(), 10), DType::f32);
  const auto run = [&](int threads) {
    omp_set_num_threads(threads);
    Tensor moments = test::empty({2, 49}, DType::f64);
    norm_moments(test::stream(), shape, x, moments);
    return values_of(moments);
  };
  const int before = omp_get_max_threads();
  const auto one = run(1), two = run(2), five = run(5);
  omp_set_num_threads(before);
  EXPECT_EQ(0, std::memcmp(one.data(), two.data(), one.size() * 8));
  EXPECT_EQ(0, std::memcmp(one.data(), five.data(), one.size() * 8));
}

/// Results of all passes, by the CPU's loops or by the launch shapes.
std::vector<Tensor> all_passes(bool with_loops, const NormShape& shape, DType type,
                               const FusedActivation& activation, bool with_residual) {
  const Stream stream = test::stream();
  const Shape s{shape.samples, shape.rows, shape.channels};
  const DType wide = type == DType::f64 ? DType::f64 : DType::f32;
  const auto data = [&](uint64_t seed) {
    return make_tensor(s, normal_values(shape.numel(), seed), type);
  };
  const auto parameter = [&](uint64_t seed) {
    return make_tensor({shape.channels}, normal_values(shape.channels, seed), wide);
  };
  const Tensor x = data(21), dy = data(22), residual = with_residual ? data(23) : Tensor();
  const Tensor gamma = parameter(24), beta = parameter(25);
  Tensor moments = test::empty({shape.samples, 1 + 2 * shape.channels}, DType::f64);
  Tensor statistics = test::empty({shape.samples, shape.groups, 3}, wide);
  Tensor sums = test::empty({shape.samples, 2 * shape.channels}, DType::f64);
  Tensor coefficients = test::empty({shape.samples, shape.groups, 2}, wide);
  Tensor y = test::empty(s, type), dz = test::empty(s, type), dx = test::empty(s, type);
  Tensor dx_again = test::empty(s, type), none;
  with_loops ? norm_moments(stream, shape, x, moments)
             : generic::norm_moments(stream, shape, x, moments);
  norm_statistics(stream, shape, 1e-5, moments, statistics);
  const NormInput in{x, statistics, gamma, beta, residual};
  with_loops ? norm_forward(stream, shape, activation, in, y)
             : generic::norm_forward(stream, shape, activation, in, y);
  with_loops ? norm_backward_sums(stream, shape, activation, in, dy, sums, dz)
             : generic::norm_backward_sums(stream, shape, activation, in, dy, sums, dz);
  norm_backward_coefficients(stream, shape, sums, moments, statistics, gamma, coefficients);
  const auto apply = with_loops ? norm_backward_apply : generic::norm_backward_apply;
  apply(stream, shape, activation, in, dy, dz, coefficients, dx);
  apply(stream, shape, activation, in, dy, none, coefficients, dx_again);
  return {moments, y, sums, dz, dx, dx_again};
}

// The functors that CUDA runs, on the CPU, against the CPU's own loops.
TEST(Norm, LaunchShapesAgreeWithTheLoops) {
  using Kind = ActivationKind;
  for (const NormShape& shape : {NormShape{2, 700, 6, 3}, NormShape{3, 33, 40, 8}})
    for (const Kind kind : {Kind::identity, Kind::relu, Kind::leaky_relu, Kind::silu, Kind::gelu,
                            Kind::sigmoid, Kind::tanh})
      for (const bool residual : {false, true})
        for (const DType type : {DType::f64, DType::f32, DType::bf16}) {
          SCOPED_TRACE(testing::Message() << "activation " << static_cast<int>(kind) << ", "
                                          << name_of(type) << (residual ? ", residual" : ""));
          const auto a = all_passes(true, shape, type, {kind, 0.1}, residual);
          const auto b = all_passes(false, shape, type, {kind, 0.1}, residual);
          for (size_t k = 0; k < a.size(); ++k) {
            const std::vector<double> want = values_of(a[k]);
            // Sums of 700 terms in two orders; results may fall to two sides of a rounding.
            const double bound = test::relative_bound(type, 200, 2) * 10 * test::max_abs(want);
            EXPECT_EQ("", differences(values_of(b[k]), want, bound)) << "result " << k;
          }
        }
}

TEST(Norm, RefusesWrongArguments) {
  Tensor moments = test::empty({1, 9}, DType::f64);
  const Tensor x = test::zeros({1, 8, 4}, DType::f32);
  EXPECT_THROW(norm_moments(test::stream(), {1, 8, 4, 3}, x, moments), Error);
  EXPECT_THROW(norm_moments(test::stream(), {1, 9, 4, 2}, x, moments), Error);
  EXPECT_THROW(norm_moments(test::stream(), {1, 8, 4, 2}, x.to(DType::i32), moments), Error);
  Tensor narrow = test::empty({1, 9}, DType::f32);
  EXPECT_THROW(norm_moments(test::stream(), {1, 8, 4, 2}, x, narrow), Error);
}

}  // namespace
}  // namespace bora::kernels
