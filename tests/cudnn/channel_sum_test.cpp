// SPDX-License-Identifier: Apache-2.0
// The bias gradient as the launch shapes compute it: the CUDA side of channel_sum.
#include "kernels/channel_sum_generic.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/device.hpp"
#include "tests/support/random.hpp"
#include "tests/support/tolerance.hpp"

namespace bora::kernels {
namespace {

class ChannelSum : public ::testing::TestWithParam<DType> {};

TEST_P(ChannelSum, IsTheSumOverAllRowsInF32) {
  for (const int64_t rows : {0, 1, 7, 513, 9001}) {
    for (const int64_t columns : {1, 3, 16, 17, 33}) {
      for (const DType out : {DType::f32, GetParam()}) {
        for (const GradientMode mode : {GradientMode::overwrite, GradientMode::add}) {
          SCOPED_TRACE(::testing::Message() << rows << " x " << columns << ", to " << out);
          const Tensor dy = test::make_tensor({rows, columns},
                                              test::normal_values(rows * columns, 11), GetParam());
          const double before = mode == GradientMode::add ? 0.75 : 0.0;
          Tensor db = test::full({columns}, mode == GradientMode::add ? before : NAN, out);
          generic::channel_sum(test::stream(), dy, mode, db);
          const std::vector<double> v = test::values_of(dy), got = test::values_of(db);
          for (int64_t c = 0; c < columns; ++c) {
            double want = before, size = before;
            for (int64_t r = 0; r < rows; ++r) {
              want += v[static_cast<size_t>(r * columns + c)];
              size += std::abs(v[static_cast<size_t>(r * columns + c)]);
            }
            // Lanes of at most rows / 8 terms, then some 20 levels of the tree; one rounding to
            // out.
            const double allowed =
                test::gamma(static_cast<double>(rows) / 8.0 + 24.0, DType::f32) * size +
                1.01 * test::unit_roundoff(out) * std::abs(want) + test::absolute_floor(out);
            EXPECT_LE(std::abs(got[static_cast<size_t>(c)] - want), allowed) << c;
          }
        }
      }
    }
  }
}

TEST_P(ChannelSum, HasTheSameBitsEachTime) {
  const Tensor dy = test::make_tensor({9001, 17}, test::normal_values(9001 * 17, 5), GetParam());
  Tensor first = test::zeros({17}, DType::f32), second = test::zeros({17}, DType::f32);
  generic::channel_sum(test::stream(), dy, GradientMode::overwrite, first);
  generic::channel_sum(test::stream(), dy, GradientMode::overwrite, second);
  EXPECT_EQ(test::values_of(first), test::values_of(second));
}

INSTANTIATE_TEST_SUITE_P(Types, ChannelSum, ::testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& i) { return std::string(name_of(i.param)); });

}  // namespace
}  // namespace bora::kernels
