// SPDX-License-Identifier: Apache-2.0
// Windows over a volume: where they lie, how they are blended, what memory they take (feature 114;
// the fault "sliding window": sums in half precision, cells that no window covers, weights that are
// off-centre for even windows).
#include "apps/unet3d/sliding_window.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/allocator.hpp"
#include "core/rng.hpp"
#include "tests/apps/device_under_test.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/tolerance.hpp"

namespace bora::unet3d {
namespace {

using bora::testing::device_under_test;
using bora::testing::message_of;

const std::array<double, 3> kHalf{0.5, 0.5, 0.5};

struct Layouts {
  Dims3 volume, window;
  std::array<double, 3> overlap;
};
/// Odd strides, one window, windows longer than the volume along some axes or all, extents of 1.
const Layouts kLayouts[] = {
    {{23, 17, 9}, {8, 6, 4}, kHalf},        {{23, 17, 9}, {7, 5, 9}, {0.5, 0.3, 0}},
    {{8, 6, 4}, {8, 6, 4}, kHalf},          {{5, 17, 3}, {8, 6, 6}, kHalf},
    {{3, 2, 1}, {8, 7, 6}, kHalf},          {{12, 12, 4}, {4, 4, 4}, {0, 0, 0}},
    {{11, 1, 6}, {3, 1, 5}, {0.9, 0, 0.6}}, {{9, 8, 7}, {1, 2, 3}, {0.99, 0.4, 0.4}}};

/// The value of channel k at a cell in window i: anything.
double value_of(int64_t window, int64_t cell, int64_t channel) {
  const RngKey key{11, rng_stream("window", static_cast<uint64_t>(window))};
  return 100 * key.normal(static_cast<uint64_t>(cell * 7 + channel)) + 30;
}

/// Predictions that depend on the window, so that the blend shows; of `type`.
SlidingSteps random_steps(const WindowLayout& layout, int64_t channels, DType type, Tensor& out,
                          Device device = cpu()) {
  out =
      Tensor::full({layout.volume.d, layout.volume.h, layout.volume.w, channels}, NAN, DType::f32);
  auto next = std::make_shared<int64_t>(0);
  auto done = std::make_shared<int64_t>(0);
  return {.read =
              [&layout, next](const data::Window& w) {
                EXPECT_EQ(w, layout.at(*next));
                return Tensor::zeros({w.shape.d, w.shape.h, w.shape.w, 1}, DType::f32);
              },
          .predict =
              [next, channels, type, device](const Tensor& x) {
                const int64_t cells = x.numel();
                std::vector<double> v;
                for (int64_t c = 0; c < cells; ++c)
                  for (int64_t k = 0; k < channels; ++k) v.push_back(value_of(*next, c, k));
                ++*next;
                return Tensor::from<double>({x.size(0), x.size(1), x.size(2), channels}, v)
                    .to(type)
                    .to(device);
              },
          .take =
              [&out, done](int64_t first, const Tensor& slab) {
                EXPECT_EQ(first, *done);
                *done += slab.size(0);
                ASSERT_LE(*done, out.size(0));
                const int64_t plane = slab.numel() / slab.size(0);
                std::copy(slab.data<float>(), slab.data<float>() + slab.numel(),
                          out.data<float>() + first * plane);
              }};
}

TEST(WindowLayout, CoversEachCellAndEndsAtTheEdge) {
  for (const Layouts& l : kLayouts) {
    const WindowLayout layout = lay_windows(l.volume, l.window, l.overlap);
    for (int a = 0; a < 3; ++a) {
      const auto& begins = layout.begins[static_cast<size_t>(a)];
      std::vector<int> covered(static_cast<size_t>(l.volume[a]), 0);
      for (size_t i = 0; i < begins.size(); ++i) {
        if (i > 0) {
          EXPECT_GT(begins[i], begins[i - 1]);
        }
        for (int64_t c = begins[i]; c < begins[i] + l.window[a]; ++c)
          if (c >= 0 && c < l.volume[a]) ++covered[static_cast<size_t>(c)];
      }
      for (const int n : covered) EXPECT_GE(n, 1) << l.volume << " by " << l.window;
      if (l.window[a] <= l.volume[a]) {
        EXPECT_EQ(begins.front(), 0);
        EXPECT_EQ(begins.back(), l.volume[a] - l.window[a]);
      } else {
        EXPECT_EQ(begins.size(), 1u);
        EXPECT_EQ(begins[0], data::centred_window(l.volume, {std::max(l.volume.d, l.window.d),
                                                             std::max(l.volume.h, l.window.h),
                                                             std::max(l.volume.w, l.window.w)})
                                 .begin[a]);
      }
    }
  }
  // The volume of a public report, windows of 128, a stride of 51.
  const WindowLayout odd = lay_windows({217, 274, 202}, {128, 128, 128}, {0.6, 0.6, 0.6});
  EXPECT_EQ(odd.begins[0], (std::vector<int64_t>{0, 51, 89}));
  EXPECT_EQ(odd.begins[1], (std::vector<int64_t>{0, 51, 102, 146}));
  EXPECT_EQ(odd.begins[2], (std::vector<int64_t>{0, 51, 74}));
  EXPECT_EQ(odd.count(), 36);
}

TEST(WindowLayout, RefusesWhatCannotBe) {
  EXPECT_NE(message_of([] {
              lay_windows({4, 4, 4}, {4, 4, 4}, {1, 0, 0});
            }).find("overlap 1, wanted at least 0 and less than 1"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              lay_windows({4, 4, 4}, {4, 0, 4}, kHalf);
            }).find("window 4x0x4"),
            std::string::npos);
}

TEST(BlendProfile, IsCentredAndNeverVanishes) {
  for (const int64_t n : {1, 2, 3, 7, 8, 32, 33, 128}) {
    const std::vector<double> w = blend_profile(n);
    ASSERT_EQ(static_cast<int64_t>(w.size()), n);
    for (size_t i = 0; i < w.size(); ++i) {
      EXPECT_EQ(w[i], w[w.size() - 1 - i]) << n;  // to the bit
      EXPECT_GE(w[i], kLowestBlendWeight);
      EXPECT_LE(w[i], 1.0);
      if (i > 0 && 2 * i < w.size()) {
        EXPECT_GE(w[i], w[i - 1]);
      }
    }
  }
  // sigma is an eighth of the extent: 32 / 8 = 4, cells 12 and 4 lie 3.5 and 11.5 from the middle.
  EXPECT_NEAR(blend_profile(32)[12], std::exp(-0.5 * 3.5 * 3.5 / 16), 1e-15);
  EXPECT_NEAR(blend_profile(32)[4], std::exp(-0.5 * 11.5 * 11.5 / 16), 1e-15);
}

// Numerators and denominators in f64, over all windows, in memory.
TEST(SlidingWindow, EqualsABlendInDoublePrecision) {
  for (const Layouts& l : kLayouts)
    for (const int64_t channels : {1, 3}) {
      const WindowLayout layout = lay_windows(l.volume, l.window, l.overlap);
      Tensor out;
      slide(layout, random_steps(layout, channels, DType::f32, out));
      const std::vector<double> wx = blend_profile(l.window.d), wy = blend_profile(l.window.h),
                                wz = blend_profile(l.window.w);
      const auto n = static_cast<size_t>(out.numel());
      std::vector<double> sums(n, 0.0), weights(n, 0.0), magnitudes(n, 0.0), terms(n, 0.0);
      for (int64_t i = 0; i < layout.count(); ++i) {
        const data::Window w = layout.at(i);
        for (int64_t x = 0; x < w.shape.d; ++x)
          for (int64_t y = 0; y < w.shape.h; ++y)
            for (int64_t z = 0; z < w.shape.w; ++z) {
              const int64_t gx = w.begin.d + x, gy = w.begin.h + y, gz = w.begin.w + z;
              if (gx < 0 || gy < 0 || gz < 0 || gx >= l.volume.d || gy >= l.volume.h ||
                  gz >= l.volume.w)
                continue;
              const double weight = wx[static_cast<size_t>(x)] * wy[static_cast<size_t>(y)] *
                                    wz[static_cast<size_t>(z)];
              for (int64_t k = 0; k < channels; ++k) {
                const double v = static_cast<double>(
                    static_cast<float>(value_of(i, (x * w.shape.h + y) * w.shape.w + z, k)));
                const auto at =
                    static_cast<size_t>(((gx * l.volume.h + gy) * l.volume.w + gz) * channels + k);
                sums[at] += weight * v;
                weights[at] += weight;
                magnitudes[at] += weight * std::abs(v);
                terms[at] += 1;
              }
            }
      }
      for (size_t i = 0; i < n; ++i)
        // A term is rounded as a weight, as a product and in each sum after it.
        EXPECT_NEAR(out.data<float>()[i], sums[i] / weights[i],
                    test::gamma(terms[i] + 2, DType::f32) * magnitudes[i] / weights[i])
            << l.volume << " by " << l.window << ", value " << i;
    }
}

TEST(SlidingWindow, AConstantComesBack) {
  for (const Layouts& l : kLayouts)
    for (const double constant : {1.0, -3.7, 6e4}) {
      const WindowLayout layout = lay_windows(l.volume, l.window, l.overlap);
      Tensor out;
      SlidingSteps steps = random_steps(layout, 1, DType::f32, out);
      steps.read = [](const data::Window& w) {
        return Tensor::full({w.shape.d, w.shape.h, w.shape.w, 1}, 1, DType::f32);
      };
      // f16 as a network in half precision gives it: 6e4 twice is beyond its largest number.
      steps.predict = [&](const Tensor& x) {
        return Tensor::full(x.shape(), constant, DType::f16).to(device_under_test());
      };
      slide(layout, steps);
      const double wanted = Tensor::full({1}, constant, DType::f16).to(DType::f32).item();
      for (int64_t i = 0; i < out.numel(); ++i)
        ASSERT_NEAR(out.data<float>()[i], wanted, 1e-5 * std::abs(wanted)) << i;
    }
}

TEST(SlidingWindow, OneWindowIsLeftAsItIs) {
  const WindowLayout layout = lay_windows({6, 5, 4}, {6, 5, 4}, kHalf);
  Tensor out;
  slide(layout, random_steps(layout, 2, DType::f32, out));
  for (int64_t i = 0; i < out.numel(); ++i)
    EXPECT_EQ(out.data<float>()[i], static_cast<float>(value_of(0, i / 2, i % 2)));
}

TEST(SlidingWindow, ComputesOnADeviceAndBlendsOnTheHost) {
  const WindowLayout layout = lay_windows({9, 7, 6}, {4, 4, 4}, kHalf);
  Tensor host, device;
  slide(layout, random_steps(layout, 1, DType::bf16, host));
  slide(layout, random_steps(layout, 1, DType::bf16, device, device_under_test()));
  EXPECT_EQ(host.to_vector<float>(), device.to_vector<float>());
}

// Memory goes by the window and the cross-section, not by the length.
TEST(SlidingWindow, MemoryDoesNotGrowWithTheLengthOfTheVolume) {
  const auto peak_of = [](int64_t length) {
    CachingAllocator& memory = caching_allocator(cpu());
    const WindowLayout layout = lay_windows({length, 24, 20}, {16, 16, 16}, kHalf);
    int64_t planes = 0;
    memory.reset_peak();
    const int64_t before = memory.stats().live;
    slide(layout, {.read =
                       [](const data::Window& w) {
                         return Tensor::full({w.shape.d, w.shape.h, w.shape.w, 1}, 1, DType::f32);
                       },
                   .predict = [](const Tensor& x) { return x.clone(); },
                   .take = [&](int64_t, const Tensor& slab) { planes += slab.size(0); }});
    EXPECT_EQ(planes, length);
    return memory.stats().peak - before;
  };
  const int64_t at_40 = peak_of(40);
  // 16 planes of sums, the input and the output of a window; blocks are multiples of 256 bytes.
  EXPECT_LE(at_40, 4 * (16 * 24 * 20 + 2 * 16 * 16 * 16) + 3 * 256);
  EXPECT_EQ(peak_of(1000), at_40);
}

TEST(SlidingWindow, RefusesPredictionsOfAnotherShape) {
  const WindowLayout layout = lay_windows({9, 7, 6}, {4, 4, 4}, kHalf);
  Tensor out;
  SlidingSteps steps = random_steps(layout, 1, DType::f32, out);
  steps.predict = [](const Tensor&) { return Tensor::zeros({4, 4, 3, 1}, DType::f32); };
  EXPECT_NE(message_of([&] { slide(layout, steps); }).find("(4, 4, 3, 1), wanted (4x4x4, 1)"),
            std::string::npos);
}

}  // namespace
}  // namespace bora::unet3d
