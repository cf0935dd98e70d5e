// SPDX-License-Identifier: Apache-2.0
// For tests of files that were read before: boxes by open_volume and by the HDF5 library.
#pragma once

#include <chrono>
#include <filesystem>
#include <random>
#include <string>
#include <utility>

#include "data/hdf5.hpp"
#include "data/volume_file.hpp"
#include "tests/data/hdf5_by_library.hpp"

namespace bora::data::test {

/// As if the file had been written `hours` ago: what is younger than seconds is not remembered.
inline void make_old(const std::string& path, int hours = 1) {
  namespace fs = std::filesystem;
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
}

/// Random boxes, none of them empty.
struct Boxes {
  std::mt19937 random{11};
  std::pair<Dims3, Dims3> next(const Dims3& grid) {
    Dims3 begin, count;
    const auto draw = [&](int64_t extent, int64_t& first, int64_t& n) {
      first = static_cast<int64_t>(random()) % extent;
      n = 1 + static_cast<int64_t>(random()) % (extent - first);
    };
    draw(grid.d, begin.d, count.d);
    draw(grid.h, begin.h, count.h);
    draw(grid.w, begin.w, count.w);
    return {begin, count};
  }
};

inline Tensor volume_box(const std::string& path, const Dims3& begin, const Dims3& count,
                         DType type = DType::f32) {
  return open_volume({path, "raw", "xyz"})->read(begin, count, type);
}
inline Tensor library_box(const std::string& path, const Dims3& begin, const Dims3& count,
                          DType type = DType::f32) {
  const hdf5::Dataset d = hdf5::File::open(path).open_dataset("raw");
  return by_library(d, {begin.d, begin.h, begin.w}, {count.d, count.h, count.w}, type)
      .reshape({count.d, count.h, count.w, 1});
}

/// This process keeps so many bytes of unpacked chunks for a scope, none of those from before.
class ChunkCache {
 public:
  explicit ChunkCache(int64_t bytes) {
    hdf5::set_chunk_cache(0);
    hdf5::set_chunk_cache(bytes);
  }
  ~ChunkCache() { hdf5::set_chunk_cache(hdf5::kDefaultChunkCacheBytes); }
  ChunkCache(const ChunkCache&) = delete;
  ChunkCache& operator=(const ChunkCache&) = delete;
};

}  // namespace bora::data::test
