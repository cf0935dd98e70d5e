// SPDX-License-Identifier: Apache-2.0
// Powers of numbers from 0 to 1, in arithmetic that compilers turn into vector code.
#pragma once

#include <bit>
#include <cstdint>

namespace bora::data {

/// t^g for t in [0, 1] and g in [0.1, 10]; 0 for t below 1e-30 (as 0 is).  Relative error below
/// 1e-12: log2 t = e + log2 m with m in [sqrt(1/2), sqrt(2)) by artanh's series up to s^19 (the
/// next term is below 1e-16 s, |s| <= 0.172), times g at most 1000 units away from 0, of which a
/// rounding is 1e-13; 2^r with |r| <= 1/2 by its series up to r^13 (the next term is below 5e-18).
inline double unit_power(double t, double g) {
  constexpr uint64_t kRootHalf = 0x3fe6a09e667f3bcdu;  // the bits of sqrt(1/2)
  constexpr uint64_t kOne = 0x3ff0000000000000u;       // the bits of 1
  constexpr double kTwoOverLn2 = 0x1.71547652b82fep+1;
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  constexpr double kRound = 0x1.8p52;  // adding it leaves the whole number in the low bits

  const bool is_zero = t < 1e-30;
  const uint64_t shifted = std::bit_cast<uint64_t>(is_zero ? 1.0 : t) + (kOne - kRootHalf);
  const double e = std::bit_cast<double>((shifted >> 52) | 0x4330000000000000u) - (0x1p52 + 1023.0);
  const double m = std::bit_cast<double>((shifted & 0xfffffffffffffu) + kRootHalf);
  const double s = (m - 1.0) / (m + 1.0), z = s * s;
  double p = 1.0 / 19;
  p = p * z + 1.0 / 17;
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  const double exponent = g * (e + kTwoOverLn2 * ((p * z) * s + s));

  const double shifted_exponent = exponent + kRound;
  const double x = (exponent - (shifted_exponent - kRound)) * kLn2;
  double q = 1.0 / 6227020800.0;  // 13!, 12! and so on
  q = q * x + 1.0 / 479001600.0;
  q = q * x + 1.0 / 39916800.0;
  q = q * x + 1.0 / 3628800.0;
  q = q * x + 1.0 / 362880.0;
  q = q * x + 1.0 / 40320.0;
  q = q * x + 1.0 / 5040.0;
  q = q * x + 1.0 / 720.0;
  q = q * x + 1.0 / 120.0;
  q = q * x + 1.0 / 24.0;
  q = q * x + 1.0 / 6.0;
  q = q * x + 0.5;
  q = q * x + 1.0;
  q = q * x + 1.0;
  const double scale =
      std::bit_cast<double>((std::bit_cast<uint64_t>(shifted_exponent) + 1023u) << 52);
  return is_zero ? 0.0 : q * scale;
}

}  // namespace bora::data
