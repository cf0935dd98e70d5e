// SPDX-License-Identifier: Apache-2.0
// Targets and regions of coarser levels against sums in f64.  Feature 108 (deep supervision).
#include "kernels/masked_pool.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/guarded.hpp"
#include "tests/support/device.hpp"
#include "tests/support/tolerance.hpp"

namespace bora::kernels {
namespace {

using test::Guarded;
using test::values_of;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Wanted {
  std::vector<double> mean, counts;
};

Wanted reference(const Shape& s, Dims3 block, const std::vector<double>& x,
                 const std::vector<double>& region) {
  const int64_t d = s[1] / block.d, h = s[2] / block.h, w = s[3] / block.w, k = s[4];
  Wanted out{std::vector<double>(static_cast<size_t>(s[0] * d * h * w * k)),
             std::vector<double>(static_cast<size_t>(s[0] * d * h * w))};
  for (int64_t cell = 0; cell < s[0] * d * h * w; ++cell) {
    const int64_t n = cell / (d * h * w), i = cell / (h * w) % d, j = cell / w % h, l = cell % w;
    int64_t open = 0;
    std::vector<double> sum(static_cast<size_t>(k));
    for (int64_t a = 0; a < block.count(); ++a) {
      const int64_t di = i * block.d + a / (block.h * block.w),
                    hj = j * block.h + a / block.w % block.h, wl = l * block.w + a % block.w;
      const int64_t at = ((n * s[1] + di) * s[2] + hj) * s[3] + wl;
      if (!region.empty() && region[static_cast<size_t>(at)] == 0) continue;
      ++open;
      for (int64_t c = 0; c < k; ++c)
        sum[static_cast<size_t>(c)] += x[static_cast<size_t>(at * k + c)];
    }
    out.counts[static_cast<size_t>(cell)] = 2 * open >= block.count() ? 1 : 0;
    for (int64_t c = 0; c < k; ++c)
      out.mean[static_cast<size_t>(cell * k + c)] =
          open ? sum[static_cast<size_t>(c)] / static_cast<double>(open) : 0;
  }
  return out;
}

// Odd extents, a block that is the volume, several channels, no sample at all; what is outside the
// region is NaN and does no harm.
TEST(MaskedMeanPool, IsTheMeanOverTheRegionWithinItsBounds) {
  struct Case {
    Shape shape;
    Dims3 block;
  };
  for (const Case& c : {Case{{2, 4, 6, 8, 1}, Dims3::all(2)}, Case{{1, 5, 7, 9, 3}, Dims3::all(2)},
                        Case{{3, 9, 8, 17, 2}, Dims3::all(4)}, Case{{1, 8, 8, 8, 1}, Dims3::all(8)},
                        Case{{1, 5, 4, 3, 1}, {5, 2, 1}}, Case{{2, 3, 1, 1, 1}, Dims3::all(1)},
                        Case{{0, 4, 4, 4, 1}, Dims3::all(2)}})
    for (const double share : {0.0, 0.3, 0.5, 1.0, -1.0}) {
      SCOPED_TRACE(testing::Message() << c.shape << ' ' << c.block << ' ' << share);
      const int64_t cells = c.shape.numel() / c.shape[4];
      std::vector<double> x = test::normal_values(c.shape.numel(), 1), region;
      if (share >= 0) {
        const std::vector<double> u = test::uniform_values(cells, 0, 1, 2);
        for (int64_t i = 0; i < cells; ++i) {
          region.push_back(u[static_cast<size_t>(i)] < share ? 1 : 0);
          if (region.back() == 0)
            for (int64_t k = 0; k < c.shape[4]; ++k)
              x[static_cast<size_t>(i * c.shape[4] + k)] = kNan;
        }
      }
      const Dims3 to = blocks_of({c.shape[1], c.shape[2], c.shape[3]}, c.block);
      Guarded in(c.shape, DType::f32, x);
      Guarded pooled({c.shape[0], to.d, to.h, to.w, c.shape[4]}, DType::f32);
      Guarded counts({c.shape[0], to.d, to.h, to.w}, DType::u8);
      const Tensor mask = region.empty()
                              ? Tensor()
                              : test::make_tensor({c.shape[0], c.shape[1], c.shape[2], c.shape[3]},
                                                  region, DType::u8);
      masked_mean_pool(test::stream(), c.block, in.view(), mask, pooled.view(), counts.view());
      const Wanted want = reference(c.shape, c.block, values_of(in.view()), region);
      EXPECT_EQ(values_of(counts.view()), want.counts);
      // The sum is in f64: one rounding to f32.
      EXPECT_EQ("", test::differences(values_of(pooled.view()), want.mean,
                                      test::gamma(1, DType::f32) * (1 + test::max_abs(want.mean))));
      pooled.expect_guards_untouched();
      counts.expect_guards_untouched();
    }
}

// Exactly half of the cells is enough.
TEST(MaskedMeanPool, ABlockCountsFromHalfOn) {
  for (const int n_open : {0, 3, 4, 5, 8}) {
    std::vector<double> mask(8, 0);
    for (int i = 0; i < n_open; ++i) mask[static_cast<size_t>(i)] = 1;
    Tensor pooled = test::empty({1, 1, 1, 1, 1}, DType::f32),
           counts = test::empty({1, 1, 1, 1}, DType::u8);
    masked_mean_pool(test::stream(), Dims3::all(2), test::full({1, 2, 2, 2, 1}, 3, DType::f32),
                     test::make_tensor({1, 2, 2, 2}, mask, DType::u8), pooled, counts);
    EXPECT_EQ(values_of(counts)[0], n_open >= 4 ? 1 : 0) << n_open;
    EXPECT_EQ(values_of(pooled)[0], n_open > 0 ? 3 : 0) << n_open;
  }
}

TEST(MaskedMeanPool, RefusesWhatDoesNotFit) {
  const Tensor x = test::zeros({1, 4, 4, 4, 2}, DType::f32),
               mask = test::zeros({1, 4, 4, 4}, DType::u8);
  Tensor y = test::zeros({1, 2, 2, 2, 2}, DType::f32), c = test::zeros({1, 2, 2, 2}, DType::u8),
         wrong = test::zeros({1, 2, 2, 3, 2}, DType::f32), large = mask.clone();
  const Stream s = test::stream();
  EXPECT_THROW(masked_mean_pool(s, Dims3::all(5), x, mask, y, c), Error);
  EXPECT_THROW(masked_mean_pool(s, Dims3::all(0), x, mask, y, c), Error);
  EXPECT_THROW(masked_mean_pool(s, Dims3::all(2), x, c, y, c), Error);
  EXPECT_THROW(masked_mean_pool(s, Dims3::all(2), x, mask, wrong, c), Error);
  EXPECT_THROW(masked_mean_pool(s, Dims3::all(2), x, mask, y, large), Error);
}

}  // namespace
}  // namespace bora::kernels
