// SPDX-License-Identifier: Apache-2.0
// Elementary functions that compilers can turn into vector code, on host and device.  (std::exp in
// a loop stays scalar without -ffast-math, which this project does not use.)
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "core/portable.hpp"

namespace bora::kernels {

/// e^x, within 2 ulp of the true value also where the result is subnormal.  inf above 88.7228,
/// 0 below -103.98, NaN for NaN; no branches, no tables.
///
/// x = n ln2 + r with |r| <= ln2 / 2; e^r = 1 + r + r^2 P(r).  P is a weighted minimax fit
/// (Lawson's iteration on 4001 Chebyshev nodes) of relative error 3.1e-9, a twentieth of half an
/// ulp.  ln2 is split so that n * kHigh is exact.  2^n is applied in two factors: one rounding for
/// subnormals, and inf arises by itself.
BORA_HD inline float fast_exp(float x) {
  constexpr float kLog2e = 1.44269504088896f;
  constexpr float kHigh = 0x1.62e4p-1f;  // upper 15 bits of ln2
  constexpr float kLow = 1.42860682030942e-6f;
  constexpr float kBound = 105.0f;  // e^105 is inf, e^-105 is 0
  constexpr float kRound =
      12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  // One bound that depends on x, not two constants: g++ would make a copy of all that follows for
  // each constant (three divisions where a caller divides).  NaN passes.
  const float c = ::fabsf(x) > kBound ? ::copysignf(kBound, x) : x;
  const float shifted = c * kLog2e + kRound;
  const float n = shifted - kRound;
  const float r = (c - n * kHigh) - n * kLow;
  float p = 0x1.6a23d0p-10f;
  p = p * r + 0x1.123a20p-7f;
  p = p * r + 0x1.5558f2p-5f;
  p = p * r + 0x1.555492p-3f;
  p = p * r + 0x1.fffffcp-2f;
  p = (p * r) * r + r + 1.0f;
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound);
  // NaN leaves any integer here; unsigned arithmetic keeps that defined.
  const uint32_t half = static_cast<uint32_t>(exponent >> 1);
  const uint32_t rest = static_cast<uint32_t>(exponent) - half;
  const float scale_a = std::bit_cast<float>((half + 127u) << 23);
  const float scale_b = std::bit_cast<float>((rest + 127u) << 23);
  return (p * scale_a) * scale_b;
}

/// e^x in f64 (for gradient checks: the library's function).
BORA_HD inline double fast_exp(double x) { return ::exp(x); }

/// 1 / (1 + e^-x): no overflow for any x, NaN for NaN.
template <class A>
BORA_HD inline A fast_sigmoid(A x) {
  return A(1) / (A(1) + fast_exp(-x));
}

}  // namespace bora::kernels
