// SPDX-License-Identifier: Apache-2.0
// Picture: a PNG read back, for tests.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/colour_map.hpp"

namespace bora::data::test {

struct Picture {
  /// Throws Error if libpng cannot read it.
  explicit Picture(const std::string& path);
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb;

  Rgb at(int64_t x, int64_t y) const {
    const auto i = static_cast<size_t>(3 * (y * width + x));
    return {rgb[i], rgb[i + 1], rgb[i + 2]};
  }
  int64_t count(Rgb colour) const {
    int64_t n = 0;
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) n += at(x, y) == colour;
    return n;
  }
  /// The first pixel of that colour by rows, or (-1, -1).
  std::pair<int64_t, int64_t> first(Rgb colour) const {
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x)
        if (at(x, y) == colour) return {x, y};
    return {-1, -1};
  }
};

}  // namespace bora::data::test
