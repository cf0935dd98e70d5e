// SPDX-License-Identifier: Apache-2.0
// Values that a file holds, but f32 does not: read as f32 they are infinite.
#pragma once

#include <cmath>
#include <limits>

namespace bora::data {

inline constexpr const char* kBeyondF32 =
    "beyond the range of f32 (-3.40282e+38 to 3.40282e+38), which is what fields are read as";

/// Finite, and infinite as f32.
inline bool is_beyond_f32(double value) {
  return std::isfinite(value) && std::abs(value) > double{std::numeric_limits<float>::max()};
}

}  // namespace bora::data
