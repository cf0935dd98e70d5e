// SPDX-License-Identifier: Apache-2.0
// What a fuzzer of volumes does with a file that opened: whole, in part, and as labels.
#pragma once

#include <algorithm>

#include "core/error.hpp"
#include "data/volume_file.hpp"

namespace bora::fuzz {

/// Catches Error of each read and nothing else.
inline void read_every_way(const data::VolumeFile& file) {
  const Dims3 grid = file.info().grid;
  const Dims3 half{grid.d / 2, grid.h / 2, grid.w / 2};
  const Dims3 box{std::min<int64_t>(grid.d - half.d, 3), std::min<int64_t>(grid.h - half.h, 3),
                  std::min<int64_t>(grid.w - half.w, 3)};
  const auto read = [&](const Dims3& begin, const Dims3& count, DType type) {
    try {
      file.read(begin, count, type);
    } catch (const Error&) {
    }
  };
  read(half, box, DType::f32);
  read(half, box, DType::u8);
  read({0, 0, 0}, grid, DType::f32);
  read({0, 0, 0}, grid, file.info().type);
  read(grid, {1, 1, 1}, DType::f64);
}

}  // namespace bora::fuzz
