// SPDX-License-Identifier: Apache-2.0
// Half and BFloat16: 16-bit storage types.  They convert to and from float and do nothing else:
// arithmetic is in float.  On a GPU one instruction converts, with the same rounding; it makes
// every NaN 0x7fff, where the code for the host keeps sign and upper payload.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "core/portable.hpp"

namespace bora {

namespace detail {

// Masks instead of branches throughout, so that loops over them become vector code (g++ makes
// branches of ?: here).

/// a where `condition`, else b.
BORA_HD constexpr uint32_t choose(bool condition, uint32_t a, uint32_t b) {
  const uint32_t mask = 0u - static_cast<uint32_t>(condition);
  return b ^ ((a ^ b) & mask);
}

/// IEEE binary16 from binary32, round to nearest even, subnormals kept, overflow to inf, NaN stays
/// NaN (quiet).
BORA_HD constexpr uint16_t half_bits(float value) {
#if defined(__CUDA_ARCH__)
  if (!std::is_constant_evaluated()) {
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
  }
#endif
  const uint32_t x = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (x >> 16) & 0x8000u;
  const uint32_t magnitude = x & 0x7fffffffu;
  // Normal: rebias the exponent by 112, add half of the last kept unit (ties to even); a carry
  // moves up the exponent.
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Below 2^-14: beside 0.5 the unit of a float is 2^-24, the unit of a subnormal half.
  const uint32_t small = choose(magnitude < 0x38800000u, magnitude, 0u);
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(small) + 0.5f) - 0x3f000000u;
  const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x1ffu);
  uint32_t bits = choose(magnitude < 0x38800000u, subnormal, normal);
  bits = choose(magnitude >= 0x477ff000u, 0x7c00u, bits);  // from 65520 on: inf
  bits = choose(magnitude > 0x7f800000u, nan, bits);
  return static_cast<uint16_t>(sign | bits);
}

BORA_HD constexpr float half_value(uint16_t bits) {
#if defined(__CUDA_ARCH__)
  if (!std::is_constant_evaluated()) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
#endif
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t rest = bits & 0x7fffu;
  const uint32_t normal = (rest << 13) + choose(rest >= 0x7c00u, 0x70000000u, 0x38000000u);
  // Subnormal: mantissa * 2^-24, exact in float.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(rest)) * 0x1p-24f);
  return std::bit_cast<float>(sign | choose(rest < 0x400u, subnormal, normal));
}

/// bfloat16 from binary32, round to nearest even, NaN stays NaN (quiet).
BORA_HD constexpr uint16_t bfloat16_bits(float value) {
#if defined(__CUDA_ARCH__)  // sm_80 and later
  if (!std::is_constant_evaluated()) {
    uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
  }
#endif
  const uint32_t x = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (x + 0x7fffu + ((x >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>(choose((x & 0x7fffffffu) > 0x7f800000u, (x >> 16) | 0x40u, rounded));
}

BORA_HD constexpr float bfloat16_value(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

}  // namespace detail

/// IEEE binary16 storage: 1 sign, 5 exponent, 10 mantissa bits; largest 65504, smallest subnormal
/// 2^-24.
struct Half {
  uint16_t bits = 0;
  Half() = default;
  BORA_HD constexpr explicit Half(float value) : bits(detail::half_bits(value)) {}
  BORA_HD constexpr explicit operator float() const { return detail::half_value(bits); }
};

/// bfloat16 storage: 1 sign, 8 exponent, 7 mantissa bits; the range of float.
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  BORA_HD constexpr explicit BFloat16(float value) : bits(detail::bfloat16_bits(value)) {}
  BORA_HD constexpr explicit operator float() const { return detail::bfloat16_value(bits); }
};

static_assert(sizeof(Half) == 2 && sizeof(BFloat16) == 2);

}  // namespace bora
