// SPDX-License-Identifier: Apache-2.0
// How norm loops walk channels-last data on the CPU.  Inner to kernels/norm*.cpp.
//
// A lane is one place in a run of `fold` rows, lanes = fold * channels: element j of a run belongs
// to channel j % channels.  Per-channel factors and sums are kept once a lane, so that the inner
// loops are element by element over a run, full vectors whatever the number of channels.  Runs make
// a tile (fits L1), tiles a slab (what one thread works on at a time).  All by shape alone.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/norm.hpp"

namespace bora::kernels {

struct LanePlan {
  int64_t channels, rows;
  int64_t lanes;      // fold * channels, fold a power of two
  int64_t tile_rows;  // a multiple of fold
  int64_t slab_rows;  // a multiple of tile_rows
  int64_t slabs;      // per sample

  LanePlan(int64_t n_rows, int64_t n_channels) : channels(n_channels), rows(n_rows) {
    constexpr int64_t kMinLanes = 256;       // hides the latency of adding to a sum in memory
    constexpr int64_t kTileElements = 8192;  // 32 KiB of f32: stays in L1
    constexpr int64_t kMaxSlabs = 64;        // parallelism within a sample
    constexpr int64_t kWidth = 16;           // f32 in a 512-bit vector
    int64_t fold = channels < kMinLanes ? kWidth / std::gcd(channels, kWidth) : 1;
    while (fold * channels < kMinLanes) fold *= 2;
    lanes = fold * channels;
    tile_rows = fold * std::max<int64_t>(kTileElements / lanes, 16);
    const int64_t tiles = std::max<int64_t>((rows + tile_rows - 1) / tile_rows, 1);
    const int64_t slab_tiles = (tiles + kMaxSlabs - 1) / kMaxSlabs;
    slabs = (tiles + slab_tiles - 1) / slab_tiles;
    slab_rows = slab_tiles * tile_rows;
  }

  int64_t slab_begin(int64_t slab) const { return slab * slab_rows; }
  int64_t slab_end(int64_t slab) const { return std::min((slab + 1) * slab_rows, rows); }
};

/// Per-lane arrays, each from the start of a cache line on: a vector that straddles two lines costs
/// twice, and more where it was just stored.
template <class A>
class LaneArrays {
 public:
  LaneArrays(int64_t n_arrays, int64_t lanes)
      : stride_((lanes + kLine - 1) / kLine * kLine),
        storage_(static_cast<size_t>(n_arrays * stride_ + kLine)) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    first_ = storage_.data() + (64 - address % 64) % 64 / sizeof(A);
  }
  A* operator[](int64_t i) { return first_ + i * stride_; }

 private:
  static constexpr int64_t kLine = 64 / sizeof(A);
  int64_t stride_;
  std::vector<A> storage_;
  A* first_;
};

/// Adds the lanes of each channel by halves (pairwise); the result is in sums[0 .. channels).
template <class A>
void fold_lanes(A* sums, int64_t lanes, int64_t channels) {
  while (lanes > channels) {
    lanes /= 2;
    for (int64_t j = 0; j < lanes; ++j) sums[j] += sums[j + lanes];
  }
}

/// Repeats values[0 .. channels) over the lanes.
template <class A>
void spread_lanes(A* values, int64_t lanes, int64_t channels) {
  for (int64_t filled = channels; filled < lanes; filled *= 2)
    std::copy_n(values, filled, values + filled);
}

/// The factors of z = (x - mean) * scale + shift of one sample, spread over the lanes.
template <class A>
struct NormLanes {
  static constexpr int64_t kArrays = 3;
  A *mean, *scale, *shift;

  /// Uses the first kArrays of `arrays`.
  NormLanes(const NormShape& shape, const NormInput& in, int64_t sample, int64_t lanes,
            LaneArrays<A>& arrays)
      : mean(arrays[0]), scale(arrays[1]), shift(arrays[2]) {
    const A* const statistics = in.statistics.data<A>() + sample * shape.groups * 3;
    const A* const gamma = in.gamma.data<A>();
    const A* const beta = in.beta.data<A>();
    for (int64_t c = 0; c < shape.channels; ++c) {
      const A* const s = statistics + c / shape.group_channels() * 3;
      mean[c] = s[0];
      scale[c] = gamma[c] * s[2];
      shift[c] = beta[c] - s[1] * scale[c];  // s[1]: what f32 could not hold of the mean
    }
    for (A* array : {mean, scale, shift}) spread_lanes(array, lanes, shape.channels);
  }
};

/// body(sample, slab) for all slabs, on all threads.  `backwards` walks each thread's share from
/// its end, where the pass before left off and the cache is still warm.
template <class Body>
void for_each_slab(int64_t samples, const LanePlan& plan, bool backwards, const Body& body) {
  const int64_t n = samples * plan.slabs;
#pragma omp parallel if (n > 1)
  {
    const int64_t threads = omp_get_num_threads(), me = omp_get_thread_num();
    const int64_t begin = n * me / threads, end = n * (me + 1) / threads;
    for (int64_t k = begin; k < end; ++k) {
      const int64_t i = backwards ? begin + end - 1 - k : k;
      body(i / plan.slabs, i % plan.slabs);
    }
  }
}

}  // namespace bora::kernels
