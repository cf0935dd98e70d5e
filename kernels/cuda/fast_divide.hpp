// SPDX-License-Identifier: Apache-2.0
// Division by a number known before the launch: a multiplication and a shift.  (A 32-bit division
// is some 20 instructions on a GPU, one of 64 bits some 80: more than a pack costs in memory time.)
#pragma once

#include <cstdint>

#include "core/error.hpp"
#include "core/portable.hpp"

namespace bora::kernels::cuda {

/// n / divisor for 0 <= n < 2^31, 1 <= divisor < 2^31.  Source: Granlund and Montgomery 1994,
/// figure 4.1.
struct FastDivide {
  uint32_t divisor = 1, multiplier = 1, shift = 0;

  FastDivide() = default;
  explicit FastDivide(int64_t by) : divisor(static_cast<uint32_t>(by)) {
    BORA_CHECK(by >= 1 && by < (int64_t{1} << 31), "FastDivide: by ", by,
               ", wanted 1 <= divisor < 2^31");
    while ((uint64_t{1} << shift) < divisor) ++shift;
    multiplier = static_cast<uint32_t>(
        (uint64_t{1} << 32) * ((uint64_t{1} << shift) - divisor) / divisor + 1);
  }
  BORA_HD uint32_t quotient(uint32_t n) const {
    const auto high = static_cast<uint32_t>((static_cast<uint64_t>(n) * multiplier) >> 32);
    return (high + n) >> shift;
  }
  /// n becomes the remainder; returns the quotient.
  BORA_HD uint32_t split(uint32_t& n) const {
    const uint32_t q = quotient(n);
    n -= q * divisor;
    return q;
  }
};

}  // namespace bora::kernels::cuda
