// SPDX-License-Identifier: Apache-2.0
#include "core/half.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace bora {
namespace {

bool is_nan16(uint16_t bits, uint16_t exponent_mask) {
  return (bits & exponent_mask) == exponent_mask &&
         (bits & static_cast<uint16_t>(~exponent_mask & 0x7fffu)) != 0;
}

// The compiler's own conversion: hardware or libgcc, nothing of ours.
uint16_t reference_half(float x) { return std::bit_cast<uint16_t>(static_cast<_Float16>(x)); }

// bf16 by plain arithmetic on the integer: compare the dropped half with the middle.
uint16_t reference_bfloat16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  const uint32_t dropped = bits & 0xffffu;
  uint32_t kept = bits >> 16;
  if (dropped > 0x8000u || (dropped == 0x8000u && kept % 2 == 1)) ++kept;
  return static_cast<uint16_t>(kept);
}

TEST(Half, AllPatternsComeBackFromFloat) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<uint16_t>(bits);
    const float value = detail::half_value(pattern);
    const uint16_t back = detail::half_bits(value);
    if (is_nan16(pattern, 0x7c00)) {
      EXPECT_TRUE(std::isnan(value));
      ASSERT_EQ(back, pattern | 0x200u) << std::hex << bits;  // quiet, payload and sign kept
    } else {
      // Not only there and back: the value itself is the compiler's.
      ASSERT_EQ(value, static_cast<float>(std::bit_cast<_Float16>(pattern))) << std::hex << bits;
      ASSERT_EQ(back, pattern) << std::hex << bits;
    }
  }
}

TEST(BFloat16, AllPatternsComeBackFromFloat) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<uint16_t>(bits);
    const float value = detail::bfloat16_value(pattern);
    ASSERT_EQ(std::bit_cast<uint32_t>(value), bits << 16);
    const uint16_t back = detail::bfloat16_bits(value);
    ASSERT_EQ(back, is_nan16(pattern, 0x7f80) ? pattern | 0x40u : pattern) << std::hex << bits;
  }
}

void expect_same(uint32_t bits) {
  const float x = std::bit_cast<float>(bits);
  ASSERT_EQ(detail::half_bits(x), reference_half(x)) << std::hex << bits << " = " << x;
  ASSERT_EQ(detail::bfloat16_bits(x), reference_bfloat16(x)) << std::hex << bits << " = " << x;
}

TEST(Half, FromFloatMatchesTheCompilerOnASweepOfAllPatterns) {
  // A prime step visits all exponents and many mantissas: 4.3 million patterns of both signs.
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 997)
    expect_same(static_cast<uint32_t>(bits));
}

TEST(Half, FromFloatMatchesTheCompilerAroundEveryTie) {
  // Each f16 value, the tie above it, and one unit of f32 to both sides; both signs.  Subnormals,
  // zero, inf, NaN and the step from 65504 to inf are among them.
  for (uint32_t bits = 0; bits < 0x7c00u; ++bits) {
    const float low = detail::half_value(static_cast<uint16_t>(bits));
    // The value above 65504 would be 65536, had f16 the exponent.
    const float high =
        bits + 1 == 0x7c00u ? 65536.0f : detail::half_value(static_cast<uint16_t>(bits + 1));
    const uint32_t tie = std::bit_cast<uint32_t>(0.5f * (low + high));  // exact in f32
    for (uint32_t sign : {0u, 0x80000000u})
      for (uint32_t x : {std::bit_cast<uint32_t>(low), tie - 1, tie, tie + 1})
        expect_same(x | sign);
  }
  for (uint32_t sign : {0u, 0x80000000u})
    for (uint32_t x : {0x7f800000u, 0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0x00000001u, 0x007fffffu,
                       0x00800000u, 0x7f7fffffu})
      expect_same(x | sign);
}

TEST(BFloat16, FromFloatMatchesTheReferenceAroundEveryTie) {
  for (uint32_t kept = 0; kept < 65536; ++kept)
    for (uint32_t dropped : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      expect_same(kept << 16 | dropped);
}

TEST(Half, RoundsAtTheEdgesOfItsRange) {
  EXPECT_EQ(Half(65504.0f).bits, 0x7bff);
  EXPECT_EQ(Half(65519.99f).bits, 0x7bff);
  EXPECT_EQ(Half(65520.0f).bits, 0x7c00);  // the tie goes to the even neighbour: inf
  EXPECT_EQ(Half(-65520.0f).bits, 0xfc00);
  EXPECT_EQ(Half(std::ldexp(1.0f, -24)).bits, 1);
  EXPECT_EQ(Half(std::ldexp(1.0f, -25)).bits, 0);  // the tie goes to zero
  EXPECT_EQ(Half(std::nextafter(std::ldexp(1.0f, -25), 1.0f)).bits, 1);
  EXPECT_EQ(Half(std::ldexp(3.0f, -25)).bits, 2);  // the tie between 1 and 2 units goes to 2
  EXPECT_EQ(Half(-0.0f).bits, 0x8000);
  EXPECT_EQ(Half(std::ldexp(2047.0f, -25)).bits, 0x0400);  // rounds up into the normal range
}

TEST(BFloat16, RoundsAtTheEdgesOfItsRange) {
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x7f7fffffu)).bits, 0x7f80);  // FLT_MAX: inf
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x7f7f7fffu)).bits, 0x7f7f);
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x00000001u)).bits, 0);
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(Half, ConvertsInConstantExpressions) {
  static_assert(Half(1.5f).bits == 0x3e00);
  static_assert(static_cast<float>(Half(1.5f)) == 1.5f);
  static_assert(BFloat16(1.5f).bits == 0x3fc0);
}

}  // namespace
}  // namespace bora
