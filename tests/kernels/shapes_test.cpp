// SPDX-License-Identifier: Apache-2.0
// Activations at their limits, pooling and resampling beside what the op table tests.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/activation.hpp"
#include "kernels/pointwise.hpp"
#include "kernels/pool3d.hpp"
#include "kernels/rearrange.hpp"
#include "kernels/resample.hpp"
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

const double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

using Unary = void (*)(Stream, const Tensor&, Tensor&);
using Binary = void (*)(Stream, const Tensor&, const Tensor&, Tensor&);

struct Limits {
  const char* name;
  Unary forward;
  Binary backward;
  bool backward_from_y;
  double at_minus, at_plus;              // result at -1e4 and 1e4
  double slope_at_minus, slope_at_plus;  // derivative there
};
const Limits kLimits[] = {{"relu", relu_forward, relu_backward, true, 0, 1e4, 0, 1},
                          {"silu", silu_forward, silu_backward, false, 0, 1e4, 0, 1},
                          {"gelu", gelu_forward, gelu_backward, false, 0, 1e4, 0, 1},
                          {"sigmoid", sigmoid_forward, sigmoid_backward, true, 0, 1, 0, 0},
                          {"tanh", tanh_forward, tanh_backward, true, -1, 1, 0, 0}};

TEST(Activation, LimitsAreReachedWithoutOverflowAndNanStays) {
  for (const Limits& a : kLimits)
    for (DType type : test::kFloats) {
      SCOPED_TRACE(testing::Message() << a.name << ' ' << name_of(type));
      const Tensor x = make_tensor({4}, {-1e4, 1e4, kNaN, 0.0}, type);
      Tensor y = test::empty({4}, type), dx = test::empty({4}, type);
      a.forward(x.stream(), x, y);
      a.backward(x.stream(), a.backward_from_y ? y : x, test::full({4}, 1.0, type), dx);
      const std::vector<double> got = values_of(y), slope = values_of(dx);
      const double scale = values_of(x)[1] / 1e4;  // 1e4 as rounded to type
      EXPECT_EQ(a.at_minus, got[0]);
      EXPECT_EQ(a.at_plus == 1e4 ? 1e4 * scale : a.at_plus, got[1]);
      EXPECT_TRUE(std::isnan(got[2]));
      EXPECT_EQ(a.slope_at_minus, slope[0]);
      EXPECT_EQ(a.slope_at_plus, slope[1]);
    }
}

TEST(Activation, AreRightAtAllSizesWithinTheirBounds) {
  for (const Limits& a : kLimits)
    for (int64_t n : test::kSizes) {
      SCOPED_TRACE(testing::Message() << a.name << ' ' << n);
      const std::vector<double> values = test::normal_values(n, 6);
      Guarded x({n}, DType::f32, values), y({n}, DType::f32);
      a.forward(x.view().stream(), x.view(), y.view());
      Tensor wide = x.view().to(DType::f64), want = test::empty({n}, DType::f64);
      a.forward(wide.stream(), wide, want);
      EXPECT_EQ("", differences(values_of(y.view()), values_of(want),
                                test::gamma(8, DType::f32) * (1 + test::max_abs(values_of(want)))));
      y.expect_guards_untouched();
    }
}

TEST(Softmax, LargeLogitsDoNotOverflowAndNanPoisonsItsRowOnly) {
  for (DType type : test::kFloats) {
    const Tensor x = make_tensor({4, 2}, {1e4, 1e4, -1e4, 1e4, kNaN, 0, -kInf, 0}, type);
    Tensor y = test::empty({4, 2}, type);
    softmax_forward(x.stream(), x, y);
    const std::vector<double> got = values_of(y);
    EXPECT_EQ(0.5, got[0]);
    EXPECT_EQ(0.5, got[1]);
    EXPECT_EQ(0.0, got[2]);
    EXPECT_EQ(1.0, got[3]);
    EXPECT_TRUE(std::isnan(got[4]) && std::isnan(got[5]));
    EXPECT_EQ(0.0, got[6]);
    EXPECT_EQ(1.0, got[7]);
  }
  Tensor none = test::empty({3, 0}, DType::f32), out = test::empty({3, 0}, DType::f32);
  EXPECT_THROW(softmax_forward(none.stream(), none, out), Error);
}

TEST(LeakyRelu, RefusesANegativeSlope) {
  Tensor x = test::zeros({3}, DType::f32), y = test::zeros({3}, DType::f32);
  EXPECT_THROW(leaky_relu_forward(x.stream(), -0.1, x, y), Error);
  EXPECT_THROW(leaky_relu_forward(x.stream(), kNaN, x, y), Error);
}

TEST(Dropout, KeepsTheExpectedShareAndScalesIt) {
  const int64_t n = 100003;
  Guarded x({n}, DType::f32, std::vector<double>(static_cast<size_t>(n), 1.0)), y({n}, DType::f32);
  dropout(x.view().stream(), RngKey{5, 6}, 0.25, x.view(), y.view());
  int64_t kept = 0;
  for (float v : y.view().to_vector<float>()) {
    ASSERT_TRUE(v == 0.0f || v == static_cast<float>(1.0 / 0.75)) << v;
    kept += v != 0.0f;
  }
  // Five standard deviations of a binomial.
  EXPECT_NEAR(0.75 * n, static_cast<double>(kept), 5 * std::sqrt(0.75 * 0.25 * n));
  y.expect_guards_untouched();
  EXPECT_THROW(dropout(x.view().stream(), {}, 1.0, x.view(), y.view()), Error);
}

struct Pooled {
  std::vector<double> y, winner;
};
Pooled max_pooled(const Pool3d& pool, const Shape& shape, const std::vector<double>& values,
                  DType type) {
  const Tensor x = make_tensor(shape, values, type);
  const Dims3 out = pooled_size({shape[1], shape[2], shape[3]}, pool);
  const Shape small{shape[0], out.d, out.h, out.w, shape[4]};
  Guarded y(small, type), winner(small, DType::u8);
  max_pool3d_forward(x.stream(), pool, x, y.view(), winner.view());
  y.expect_guards_untouched();
  winner.expect_guards_untouched();
  return {values_of(y.view()), values_of(winner.view())};
}

// The fast path (2x2x2) and the general one (the same window with an idle padding-free stride 1).
TEST(MaxPool, FirstOfEqualsAndFirstNanWin) {
  for (const Pool3d& pool : {Pool3d{}, Pool3d{.stride = Dims3::all(1)}})
    for (DType type : test::kFloats) {
      const Shape shape{1, 2, 2, 2, 1};
      Pooled p = max_pooled(pool, shape, {1, 5, 5, 2, 3, 5, 0, 5}, type);
      EXPECT_EQ(5.0, p.y[0]);
      EXPECT_EQ(1.0, p.winner[0]);
      p = max_pooled(pool, shape, {1, 5, kNaN, 2, kInf, kNaN, 0, 5}, type);
      EXPECT_TRUE(std::isnan(p.y[0]));
      EXPECT_EQ(2.0, p.winner[0]);
      p = max_pooled(pool, shape, {kNaN, 5, 1, 2, 3, 4, 0, 5}, type);
      EXPECT_TRUE(std::isnan(p.y[0]));
      EXPECT_EQ(0.0, p.winner[0]);
      p = max_pooled(pool, shape, std::vector<double>(8, -kInf), type);
      EXPECT_EQ(-kInf, p.y[0]);
      EXPECT_EQ(0.0, p.winner[0]);
    }
}

TEST(MaxPool, PaddingNeverWins) {
  const Pool3d pool{.kernel = Dims3::all(3), .stride = Dims3::all(2), .padding = Dims3::all(1)};
  const Pooled p = max_pooled(pool, {1, 1, 1, 1, 1}, {-7.0}, DType::f32);
  EXPECT_EQ(-7.0, p.y[0]);
  EXPECT_EQ(13.0, p.winner[0]);  // the middle of 27
}

TEST(Pooling, RefusesWindowsThatDoNotFit) {
  EXPECT_THROW(pooled_size({1, 4, 4}, {}), Error);
  EXPECT_THROW(pooled_size({4, 4, 4}, {.kernel = Dims3::all(3), .padding = Dims3::all(2)}), Error);
  EXPECT_THROW(pooled_size({4, 4, 4}, {.stride = Dims3::all(0)}), Error);
  EXPECT_EQ((Dims3{2, 2, 3}), pooled_size({4, 5, 7}, {}));
  Tensor x = test::zeros({1, 8, 8, 8, 1}, DType::f32), y = test::zeros({1, 1, 1, 1, 1}, DType::f32);
  Tensor winner = test::zeros({1, 1, 1, 1, 1}, DType::u8);
  EXPECT_THROW(
      max_pool3d_forward(x.stream(), {.kernel = {8, 8, 4}, .stride = Dims3::all(8)}, x, y, winner),
      Error)
      << "256 cells do not fit into a byte";
}

std::vector<double> wave(int64_t n, double phase) {
  std::vector<double> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(std::sin(0.75 * static_cast<double>(i) + phase));
  return out;
}

TEST(Trilinear, MatchesPyTorchUpAndDown) {
  struct Case {
    Shape in, out;
    const std::vector<double>&y, &dx;
  };
  namespace torch = test::torch_values;
  const Case cases[] = {
      {{1, 2, 3, 2, 2}, {1, 5, 6, 3, 2}, torch::kTrilinearUp, torch::kTrilinearUpGradient},
      {{1, 4, 3, 5, 2}, {1, 2, 3, 2, 2}, torch::kTrilinearDown, torch::kTrilinearDownGradient}};
  for (const Case& c : cases)
    for (DType type : {DType::f64, DType::f32}) {
      const Tensor x = make_tensor(c.in, wave(c.in.numel(), 0.125), type);
      const Tensor dy = make_tensor(c.out, wave(c.out.numel(), 0.5), type);
      Guarded y(c.out, type), dx(c.in, type);
      upsample_trilinear_forward(x.stream(), x, y.view());
      upsample_trilinear_backward(x.stream(), dy, dx.view());
      // 8 products in a result, at most 5^3 in a gradient, 4 roundings each.
      EXPECT_EQ("", differences(values_of(y.view()), c.y, test::gamma(32, type)));
      EXPECT_EQ("", differences(values_of(dx.view()), c.dx, test::gamma(500, type)));
      y.expect_guards_untouched();
      dx.expect_guards_untouched();
    }
}

// <dy, A x> = <A^T dy, x>, both computed by the kernels, summed in f64.
TEST(Resampling, GradientsAreTheAdjoints) {
  const Dims3 sizes[][2] = {{{3, 4, 5}, {6, 8, 10}},
                            {{3, 4, 5}, {7, 4, 3}},
                            {{1, 1, 6}, {4, 3, 13}},
                            {{16, 9, 7}, {5, 2, 1}},
                            {{7, 13, 11}, {14, 25, 23}}};
  for (const auto& [in, out] : sizes)
    for (int64_t channels : {1, 5, 16})
      for (DType type : {DType::f32, DType::f64})
        for (bool nearest : {false, true}) {
          const Shape small{2, in.d, in.h, in.w, channels}, large{2, out.d, out.h, out.w, channels};
          const Tensor x = make_tensor(small, test::normal_values(small.numel(), 1), type);
          const Tensor dy = make_tensor(large, test::normal_values(large.numel(), 2), type);
          Tensor y = test::empty(large, type), dx = test::empty(small, type);
          (nearest ? upsample_nearest_forward : upsample_trilinear_forward)(x.stream(), x, y);
          (nearest ? upsample_nearest_backward : upsample_trilinear_backward)(x.stream(), dy, dx);
          double left = 0, right = 0, size = 0;
          const std::vector<double> vx = values_of(x), vy = values_of(y), vdy = values_of(dy),
                                    vdx = values_of(dx);
          for (size_t i = 0; i < vy.size(); ++i) {
            left += vdy[i] * vy[i];
            size += std::abs(vdy[i] * vy[i]);
          }
          for (size_t i = 0; i < vx.size(); ++i) right += vdx[i] * vx[i];
          EXPECT_NEAR(left, right, test::gamma(100, type) * size)
              << in << " to " << out << ", " << channels << " channels, " << name_of(type);
        }
}

TEST(Resampling, KeepsConstantsAndNeighboursOfNanClean) {
  for (DType type : test::kFloats) {
    const Tensor x = test::full({1, 3, 4, 5, 2}, 0.7, type);
    Tensor y = test::empty({1, 7, 8, 3, 2}, type);
    upsample_trilinear_forward(x.stream(), x, y);
    const double c = values_of(x)[0];
    for (double v : values_of(y))
      ASSERT_NEAR(c, v, test::relative_bound(type, 24)) << name_of(type);
    // To the same size every weight is 1 or 0; a NaN must stay in its own cell.
    Tensor bad = make_tensor({1, 1, 1, 3, 1}, {1.0, kNaN, 2.0}, type);
    Tensor same = test::empty({1, 1, 1, 3, 1}, type);
    upsample_trilinear_forward(bad.stream(), bad, same);
    EXPECT_EQ(1.0, values_of(same)[0]);
    EXPECT_EQ(2.0, values_of(same)[2]);
  }
}

TEST(LinearAxis, RangesHoldAllTargetsAndWeightsAddToOne) {
  for (int64_t in = 1; in <= 14; ++in)
    for (int64_t out = 1; out <= 14; ++out) {
      const LinearAxis axis{in, out};
      for (int64_t o = 0; o < out; ++o) {
        double total = 0;
        for (int64_t i = 0; i < in; ++i) {
          const double w = axis.weight<double>(o, i);
          ASSERT_GE(w, 0.0);
          if (w > 0) {
            ASSERT_LE(axis.first(i), o) << in << " to " << out << ", source " << i;
            ASSERT_GT(axis.last(i), o) << in << " to " << out << ", source " << i;
          }
          total += w;
        }
        ASSERT_DOUBLE_EQ(1.0, total) << in << " to " << out;
      }
    }
  // Exact where float positions are not: 2^24 + 1 cells to twice as many.
  const LinearAxis huge{16777217, 33554434};
  EXPECT_EQ(16777215, huge.at<float>(33554431).lo);
  EXPECT_EQ(0.25f, huge.at<float>(33554431).t);
}

TEST(Rearranging, MovesAllTypesWithinItsBounds) {
  for (DType type : {DType::f16, DType::f32, DType::f64, DType::u8, DType::i32, DType::i64}) {
    const std::vector<double> a = test::integer_values(3 * 5, 100, 1),
                              b = test::integer_values(3 * 17, 100, 2);
    const Tensor parts[] = {make_tensor({3, 5}, a, type), make_tensor({3, 17}, b, type)};
    Guarded y({3, 22}, type), back({3, 17}, type), spread({3, 22}, type);
    concat_channels(parts[0].stream(), {parts[0], parts[1]}, y.view());
    slice_channels(parts[0].stream(), 5, y.view(), back.view());
    slice_channels_backward(parts[0].stream(), 5, parts[1], spread.view());
    EXPECT_EQ(b, values_of(back.view()));
    std::vector<double> want;
    for (size_t r = 0; r < 3; ++r)
      for (size_t c = 0; c < 22; ++c) want.push_back(c < 5 ? 0.0 : b[r * 17 + c - 5]);
    EXPECT_EQ(want, values_of(spread.view()));
    for (const Guarded* g : {&y, &back, &spread}) g->expect_guards_untouched();
  }
  Tensor x = test::zeros({1, 2, 2, 2, 1}, DType::f32), y = test::zeros({1, 2, 2, 2, 1}, DType::f32);
  EXPECT_THROW(crop(x.stream(), {0, 0, 1}, x, y), Error);
  EXPECT_THROW(slice_channels(x.stream(), 1, x, y), Error);
}

}  // namespace
}  // namespace bora::kernels
