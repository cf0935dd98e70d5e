// SPDX-License-Identifier: Apache-2.0
// Half and BFloat16: 16-bit storage types.  They convert to and from float and do nothing else:
// arithmetic is in float.
#pragma once

#include <bit>
#include <cstdint>

#include "core/portable.hpp"

namespace bora {

namespace detail {

/// IEEE binary16 from binary32, round to nearest even, subnormals kept, overflow to inf, NaN stays
/// NaN (quiet).
BORA_HD constexpr uint16_t half_bits(float value) {
  const uint32_t x = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (x >> 16) & 0x8000u;
  const uint32_t magnitude = x & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // from 65520 on: inf
  if (magnitude < 0x38800000u) {  // below 2^-14: subnormal or zero
    if (magnitude <= 0x33000000u) return static_cast<uint16_t>(sign);  // up to 2^-25 (a tie): zero
    const uint32_t shift = 126u - (magnitude >> 23);                   // 14 .. 24
    const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t kept = mantissa >> shift;
    const uint32_t rest = mantissa & ((1u << shift) - 1u);
    const uint32_t tie = 1u << (shift - 1u);
    return static_cast<uint16_t>(sign |
                                 (kept + (rest > tie || (rest == tie && (kept & 1u)) ? 1u : 0u)));
  }
  // Normal: rebias the exponent by 112, add half of the last kept unit (ties to even); a carry
  // moves up the exponent.
  return static_cast<uint16_t>(
      sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13));
}

BORA_HD constexpr float half_value(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  // Subnormal: mantissa * 2^-24, exact in float.
  const float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-8f;
  return sign ? -magnitude : magnitude;
}

/// bfloat16 from binary32, round to nearest even, NaN stays NaN (quiet).
BORA_HD constexpr uint16_t bfloat16_bits(float value) {
  const uint32_t x = std::bit_cast<uint32_t>(value);
  if ((x & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((x >> 16) | 0x40u);
  return static_cast<uint16_t>((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
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
