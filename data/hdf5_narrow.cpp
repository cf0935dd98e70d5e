// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_narrow.hpp"

#include <cstring>
#include <limits>

namespace bora::data::hdf5::detail {

bool narrow_run(const std::byte* from, void* to, int64_t n) {
  constexpr double kMost = std::numeric_limits<float>::max();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float* out = static_cast<float*>(to);
  for (int64_t i = 0; i < n; ++i) {
    double v = 0;  // chunks do not align their elements
    std::memcpy(&v, from + i * static_cast<int64_t>(sizeof v), sizeof v);
    out[i] = v > kMost ? kInfinity : v < -kMost ? -kInfinity : static_cast<float>(v);
  }
  return true;
}

}  // namespace bora::data::hdf5::detail
