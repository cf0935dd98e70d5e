// SPDX-License-Identifier: Apache-2.0
// The step of an average of weights against f64, and the exchange of buffers.  Features 135, 183.
#include "kernels/ema.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/step_scalars.hpp"
#include "tests/kernels/guarded.hpp"
#include "tests/support/device.hpp"
#include "tests/support/tolerance.hpp"

namespace bora::kernels {
namespace {

using test::differences;
using test::Guarded;
using test::values_of;

double share_of(double decay, int64_t begin, double updates, bool skip) {
  StepScalars s;
  s.updates = updates;
  s.skip = skip ? 1 : 0;
  const Tensor scalars = step_scalars_on(test::device(), s);
  Tensor share = test::full({}, 7, DType::f32);
  ema_share(test::stream(), decay, begin, scalars, share);
  return share.item();
}

// The first steps: (1 + n) / (10 + n) is 2/11, 3/12, ...; it passes 0.999 at n = 8990.
TEST(Ema, WarmsUpToItsDecay) {
  EXPECT_EQ(ema_decay(0.999, 1), 2.0 / 11);
  EXPECT_EQ(ema_decay(0.999, 2), 0.25);
  EXPECT_EQ(ema_decay(0.1, 1), 0.1);
  EXPECT_LT(ema_decay(0.999, 8989), 0.999);
  EXPECT_EQ(ema_decay(0.999, 8990), 0.999);
  EXPECT_EQ(ema_decay(0.999, 1e9), 0.999);
}

TEST(Ema, ShareIsReadOffTheUpdatesOnTheDevice) {
  for (const double decay : {0.5, 0.999})
    for (const int64_t begin : {0, 3, 1000})
      for (const int n : {1, 2, 50, 100000})
        EXPECT_EQ(share_of(decay, begin, static_cast<double>(begin + n), false),
                  static_cast<double>(static_cast<float>(1.0 - ema_decay(decay, n))))
            << decay << ' ' << begin << ' ' << n;
  EXPECT_EQ(share_of(0.999, 0, 5, true), 0.0);
}

TEST(Ema, IsRightAtAllSizesWithinItsBounds) {
  for (const int64_t n : test::kSizes) {
    SCOPED_TRACE(n);
    Guarded average({n}, DType::f32, test::normal_values(n, 1)),
        values({n}, DType::f32, test::normal_values(n, 2));
    const std::vector<double> a = values_of(average.view()), v = values_of(values.view());
    const auto share = static_cast<float>(0.3);
    ema_update(test::stream(), test::full({}, 0.3, DType::f32), values.view(), average.view());
    std::vector<double> want(a.size());
    for (size_t i = 0; i < a.size(); ++i)
      want[i] = a[i] + static_cast<double>(share) * (v[i] - a[i]);
    // Three roundings of terms up to |a| + |v|.
    EXPECT_EQ("", differences(values_of(average.view()), want,
                              test::gamma(3, DType::f32) *
                                  (test::max_abs(a) + test::max_abs(v) + test::max_abs(want))));
    EXPECT_EQ(values_of(values.view()), v);
    average.expect_guards_untouched();
    values.expect_guards_untouched();
  }
}

// A hundred steps of a weight that moves, against the closed recursion in f64.
TEST(Ema, FollowsTheRecursionInF64) {
  double want = 1.0, slope = 0;
  Tensor average = test::full({3}, 1.0, DType::f32);
  for (int n = 1; n <= 100; ++n) {
    slope = std::sin(0.3 * n);
    const double d = ema_decay(0.9, n);
    ema_update(test::stream(), test::full({}, 1 - d, DType::f32),
               test::full({3}, slope, DType::f32), average);
    want = d * want + (1 - d) * slope;
  }
  // 100 steps of 5 roundings, forgotten at a rate of 0.9: far below their sum.
  for (const double got : values_of(average)) EXPECT_NEAR(got, want, test::gamma(500, DType::f32));
}

TEST(Ema, AShareOfZeroLeavesAllBitsAlone) {
  const std::vector<float> odd{-0.0f, 0.0f, 1e-45f, -3.5f, 3e38f};
  Tensor average = test::from<float>({5}, odd);
  const auto before = test::bytes_of(average);
  ema_update(test::stream(), test::zeros({}, DType::f32), test::full({5}, 2.0, DType::f32),
             average);
  EXPECT_EQ(test::bytes_of(average), before);
}

TEST(Ema, ExchangesContentsAndBack) {
  for (const int64_t n : test::kSizes) {
    Guarded a({n}, DType::f32, test::normal_values(n, 1)),
        b({n}, DType::f32, test::normal_values(n, 2));
    const auto was_a = test::bytes_of(a.view()), was_b = test::bytes_of(b.view());
    swap_contents(test::stream(), a.view(), b.view());
    EXPECT_EQ(test::bytes_of(a.view()), was_b);
    EXPECT_EQ(test::bytes_of(b.view()), was_a);
    swap_contents(test::stream(), a.view(), b.view());
    EXPECT_EQ(test::bytes_of(a.view()), was_a);
    a.expect_guards_untouched();
    b.expect_guards_untouched();
  }
}

TEST(Ema, RefusesWhatDoesNotFit) {
  const Tensor values = test::zeros({8}, DType::f32), share = test::zeros({}, DType::f32);
  Tensor average = test::zeros({8}, DType::f32), nine = test::zeros({9}, DType::f32),
         half = test::zeros({8}, DType::f16), out = test::zeros({}, DType::f32);
  const Stream s = test::stream();
  EXPECT_THROW(ema_update(s, share, values, nine), Error);
  EXPECT_THROW(ema_update(s, share, half, half), Error);
  EXPECT_THROW(ema_update(s, values, values, average), Error);
  EXPECT_THROW(swap_contents(s, average, nine), Error);
  EXPECT_THROW(swap_contents(s, half, half), Error);
  const Tensor scalars = step_scalars_on(test::device(), {});
  EXPECT_THROW(ema_share(s, 1.0, 0, scalars, out), Error);
  EXPECT_THROW(ema_share(s, 0.0, 0, scalars, out), Error);
  EXPECT_THROW(ema_share(s, 0.9, -1, scalars, out), Error);
  EXPECT_THROW(ema_share(s, 0.9, 0, values, out), Error);
}

}  // namespace
}  // namespace bora::kernels
