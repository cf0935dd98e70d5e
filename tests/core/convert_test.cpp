// SPDX-License-Identifier: Apache-2.0
// Runs of 16-bit elements: the vector conversions give the bits of the scalar ones.
#include "core/convert.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

namespace bora {
namespace {

template <class T>
class Convert : public ::testing::Test {};
using Narrow = ::testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(Convert, Narrow);

bool same_or_both_nan(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

TYPED_TEST(Convert, EveryValueWidens) {
  std::vector<TypeParam> in(65536);
  for (size_t i = 0; i < in.size(); ++i) in[i].bits = static_cast<uint16_t>(i);
  std::vector<float> out(in.size());
  widen_run(in.data(), static_cast<int64_t>(in.size()), out.data());
  for (size_t i = 0; i < in.size(); ++i)
    ASSERT_TRUE(same_or_both_nan(out[i], static_cast<float>(in[i]))) << i;
}

// Floats of all exponents, with mantissas at and beside the ties of both types.
TYPED_TEST(Convert, NarrowsAsTheScalarConversion) {
  std::vector<float> in;
  for (uint32_t high = 0; high < 65536; ++high)
    for (const uint32_t low : {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x2fffu, 0x3000u,
                               0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      in.push_back(std::bit_cast<float>((high << 16) | low));
  std::vector<TypeParam> out(in.size());
  narrow_run(in.data(), static_cast<int64_t>(in.size()), out.data());
  for (size_t i = 0; i < in.size(); ++i)
    ASSERT_EQ(out[i].bits, TypeParam(in[i]).bits) << std::hex << std::bit_cast<uint32_t>(in[i]);
}

TYPED_TEST(Convert, WritesExactlyItsRun) {
  for (const int64_t n : {0, 1, 7, 8, 15, 16, 17, 31, 32, 33}) {
    const auto size = static_cast<size_t>(n) + 1;
    std::vector<TypeParam> narrow_out(size, TypeParam(7.0f)), in(size, TypeParam(0.5f));
    std::vector<float> wide(size, -1.0f);
    widen_run(in.data(), n, wide.data());
    EXPECT_EQ(wide.back(), -1.0f) << n;
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(wide[static_cast<size_t>(i)], 0.5f);
    narrow_run(wide.data(), n, narrow_out.data());
    EXPECT_EQ(static_cast<float>(narrow_out.back()), 7.0f) << n;
    for (int64_t i = 0; i < n; ++i)
      ASSERT_EQ(static_cast<float>(narrow_out[static_cast<size_t>(i)]), 0.5f);
  }
}

TEST(ConvertRuns, WideTypesAreNotCopied) {
  float data[3] = {1, 2, 3}, buffer[3] = {};
  EXPECT_EQ(widen(data, 3, buffer), data);
  EXPECT_EQ(wide_target(data, buffer), data);
  Half half[3] = {Half(1.0f), Half(2.0f), Half(3.0f)};
  EXPECT_EQ(widen(half, 3, buffer), buffer);
  EXPECT_EQ(buffer[2], 3.0f);
}

}  // namespace
}  // namespace bora
