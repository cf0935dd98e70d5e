// SPDX-License-Identifier: Apache-2.0
#include "data/chunk_shape.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "core/error.hpp"
#include "data/window.hpp"

namespace bora::data {

double read_amplification(const Dims3& grid, const Dims3& chunk, const Dims3& patch) {
  double product = 1;
  for (int i = 0; i < 3; ++i) {
    BORA_CHECK(grid[i] > 0 && chunk[i] > 0 && patch[i] > 0, "read_amplification: grid ", grid,
               ", chunk ", chunk, ", patch ", patch, ", wanted extents of at least 1");
    const int64_t n = std::min(grid[i], patch[i]), c = chunk[i];
    double chunks = 0;
    for (int64_t at = 0; at <= grid[i] - n; ++at)
      chunks += static_cast<double>((at + n - 1) / c - at / c + 1);
    product *= chunks * static_cast<double>(c) / static_cast<double>((grid[i] - n + 1) * n);
  }
  return product;
}

double read_amplification(const VolumeInfo& info, const Dims3& wanted) {
  if (info.codec == "none") return 1;
  const Dims3 patch = window_shape(info.grid, wanted);
  if (info.chunk.empty()) return read_amplification(info.grid, info.grid, patch);
  return read_amplification(info.grid, {info.chunk[0], info.chunk[1], info.chunk[2]}, patch);
}

std::string amplification_warning(const VolumeInfo& info, const Dims3& patch,
                                  const std::string& table) {
  const double times = read_amplification(info, patch);
  if (times <= kMuchAmplification) return {};
  const std::string form =
      info.chunk.empty()
          ? bora::detail::join("' is one compressed stream of ", info.grid, " cells")
          : bora::detail::join("' has chunks of ",
                               Dims3{info.chunk[0], info.chunk[1], info.chunk[2]}, " cells");
  char text[32];
  std::snprintf(text, sizeof text, "%.0f", times);
  return bora::detail::join("'", info.source.path, form, ": patches of ", patch,
                            " make their reader unpack ", text, " times what they want; ", table,
                            ".cache.kind=ram or shared keeps fields unpacked, unet3d data convert "
                            "writes chunks that fit");
}

Dims3 chunk_for_patch(const Dims3& grid, const Dims3& patch, int64_t cell_bytes,
                      int64_t chunk_bytes) {
  std::array<int64_t, 3> c{};
  for (int i = 0; i < 3; ++i) {
    BORA_CHECK(grid[i] > 0 && patch[i] > 0 && cell_bytes > 0 && chunk_bytes > 0,
               "chunk_for_patch: grid ", grid, ", patch ", patch, ", ", cell_bytes,
               " bytes a cell, ", chunk_bytes, " a chunk, wanted more than 0");
    c[static_cast<size_t>(i)] = std::min(grid[i], std::max<int64_t>(8, (patch[i] + 1) / 2));
  }
  constexpr int64_t kLeast = 8;
  while (c[0] * c[1] * c[2] * cell_bytes > chunk_bytes) {
    auto& longest = *std::max_element(c.begin(), c.end());
    if (longest <= kLeast) break;
    longest = (longest + 1) / 2;
  }
  return {c[0], c[1], c[2]};
}

}  // namespace bora::data
