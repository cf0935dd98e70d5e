// SPDX-License-Identifier: Apache-2.0
// Two 32-bit random numbers to a normal one, in arithmetic that compilers can turn into vector
// code.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace bora::detail {

/// n < 2^52 as double, without a conversion instruction (there is none for vectors before AVX-512).
inline double exact_double(uint64_t n) {
  return std::bit_cast<double>(n | 0x4330000000000000u) - 0x1p52;
}

/// sqrt(-2 ln u) cos(2 pi b / 2^32) with u = (a + 1) / 2^32; a, b < 2^32.  Relative error below
/// 2e-15: also where u is close to 1 (the argument is exact) and where the cosine is close to 0
/// (the angle is reduced in integers; at a quarter turn the result is 0).  No branches, no tables.
///
/// ln u = e ln 2 + ln m with m in [sqrt(1/2), sqrt(2)), ln m = 2 artanh s with s = (m - 1) /
/// (m + 1), |s| <= 0.172: of artanh's series the terms up to s^19, the next is below 1e-16 s.  The
/// cosine is -sin of the angle a quarter and half a turn further, folded to x in [0, pi / 2]: of
/// sine's series the terms up to x^21, the next is below 5e-18.
inline double box_muller(uint64_t a, uint64_t b) {
  constexpr uint64_t kRootHalf = 0x3fe6a09e667f3bcdu;  // the bits of sqrt(1/2)
  constexpr uint64_t kOne = 0x3ff0000000000000u;       // the bits of 1
  constexpr double kHalfLn2 = 0x1.62e42fefa39efp-2;
  constexpr double kTurn = 0x1.921fb54442d18p-30;  // 2 pi / 2^32

  const double u = exact_double(a + 1) * 0x1p-32;
  const uint64_t shifted = std::bit_cast<uint64_t>(u) + (kOne - kRootHalf);
  const double e = exact_double(shifted >> 52) - 1023.0;
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
  const double half_ln = (p * z) * s + s + e * kHalfLn2;

  // Units of 2^-32 turns in [-2^31, 2^31).
  const double d = exact_double((b + 0x40000000u) & 0xffffffffu) - 0x1p31;
  const double near = ::fabs(d), far = 0x1p31 - near;
  const double x = (near < far ? near : far) * kTurn, y = x * x;
  double q = 1.0 / 51090942171709440000.0;  // 21!, 19! and so on
  q = q * y - 1.0 / 121645100408832000.0;
  q = q * y + 1.0 / 355687428096000.0;
  q = q * y - 1.0 / 1307674368000.0;
  q = q * y + 1.0 / 6227020800.0;
  q = q * y - 1.0 / 39916800.0;
  q = q * y + 1.0 / 362880.0;
  q = q * y - 1.0 / 5040.0;
  q = q * y + 1.0 / 120.0;
  q = q * y - 1.0 / 6.0;
  const double sine = (q * y) * x + x;
  return ::sqrt(-4.0 * half_ln) * ::copysign(sine, -d);
}

}  // namespace bora::detail
