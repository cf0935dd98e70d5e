// SPDX-License-Identifier: Apache-2.0
// How kernels that keep numbers per channel walk channels-last data: coalesced 16-byte packs for
// any number of channels.
//
// A sample is one run of rows * channels elements, cut into packs.  Channels repeat after a period
// of `lanes` packs = lcm(channels, pack) elements, so a thread that stays on one lane (a pack's
// place in the period) has the same channels all the way: element j of lane l is slot l * pack + j,
// of channel slot % channels.  A block is block_lanes by block_rows threads; row r takes the
// periods r, r + block_rows, ... of its slab.  Slabs are a function of the shape alone, never of
// the device: so are the bits of sums.  Where memory is not aligned, packs are gathered element by
// element and all else is the same: neither do the bits depend on addresses.
#pragma once

#include <algorithm>
#include <numeric>

#include "kernels/cuda/vector.hpp"
#include "kernels/launch.hpp"

namespace bora::kernels::cuda {

inline constexpr int kLaneThreads = 256;
/// Packs that a thread has in flight; a slab is a multiple of block_rows times this.
inline constexpr int kLaneBatch = 4;

struct ChannelLanes {
  int64_t elements = 0;       ///< of a sample
  int64_t periods = 0;        ///< of a sample; the last one may be cut short
  int64_t whole_periods = 0;  ///< behind them come rest_lanes whole packs and rest_elements
  int64_t slab_periods = 0;   ///< below 2^31
  int32_t rest_lanes = 0, rest_elements = 0;
  int32_t channels = 1, lanes = 1, block_lanes = 1, block_rows = 1, slabs = 1, samples = 0;

  ChannelLanes(int64_t n_samples, int64_t rows, int64_t n_channels, int pack) {
    constexpr int64_t kMaxSlabs = 1024;  // 2 x 32 x 128^3 f16: 128 KiB each
    BORA_CHECK(n_channels >= 1 && n_channels < (1 << 20), "channel lanes: ", n_channels,
               " channels, wanted 1 to 2^20");
    elements = rows * n_channels;
    channels = static_cast<int32_t>(n_channels);
    lanes = static_cast<int32_t>(n_channels / std::gcd<int64_t>(n_channels, pack));
    const int32_t chunks = (lanes + kLaneThreads - 1) / kLaneThreads;
    block_lanes = (lanes + chunks - 1) / chunks;
    block_rows = kLaneThreads / block_lanes;
    const int64_t period = int64_t{lanes} * pack;
    periods = (elements + period - 1) / period;
    whole_periods = elements / period;
    rest_lanes = static_cast<int32_t>(elements % period / pack);
    rest_elements = static_cast<int32_t>(elements % pack);
    // Two batches a thread at least, so that the sums over rows at a slab's end do not outweigh it.
    const int64_t unit = int64_t{block_rows} * kLaneBatch;
    const int64_t wanted = std::clamp<int64_t>(periods / (2 * unit), 1, kMaxSlabs);
    const int64_t units = (periods + unit - 1) / unit;
    slab_periods = std::max<int64_t>((units + wanted - 1) / wanted, 1) * unit;
    slabs = static_cast<int32_t>(std::max<int64_t>((periods + slab_periods - 1) / slab_periods, 1));
    BORA_CHECK(slab_periods < (int64_t{1} << 31), "channel lanes: ", elements,
               " elements a sample are too many");
    BORA_CHECK(n_samples >= 0 && n_samples * slabs < (int64_t{1} << 31),
               "channel lanes: ", n_samples, " samples of ", slabs,
               " slabs are more than a grid holds");
    samples = static_cast<int32_t>(n_samples);
  }

  BORA_HD int32_t slots(int pack) const { return lanes * pack; }
  LaunchShape launch_shape(size_t shared_bytes) const {
    LaunchShape shape;
    shape.grid = dim3(static_cast<unsigned>(slabs * samples),
                      static_cast<unsigned>((lanes + block_lanes - 1) / block_lanes));
    shape.block = dim3(static_cast<unsigned>(block_lanes), static_cast<unsigned>(block_rows));
    shape.shared_bytes = shared_bytes;
    return shape;
  }
  /// Whether all packs of arrays that start at these addresses are whole and aligned (nullptr: is).
  template <class... P>
  bool whole(const P*... p) const {
    return rest_elements == 0 && (aligned(p) && ...);
  }
  /// How many elements of `slot` there are in a sample, and in a slab of a sample with `in_sample`.
  BORA_HD int64_t count_in_sample(int32_t slot, int pack) const {
    return whole_periods + (slot < rest_lanes * pack + rest_elements ? 1 : 0);
  }
  BORA_HD int64_t count_in_slab(int32_t slab, int64_t in_sample) const {
    const int64_t begin = slab * slab_periods, end = begin + slab_periods;
    const int64_t stop = end < in_sample ? end : in_sample;
    return stop > begin ? stop - begin : 0;
  }
};

#if defined(BORA_DEVICE_CODE)

/// A thread's share of a slab: n_packs whole packs, the first at element `offset`, each `stride`
/// behind the one before.  Threads of a last chunk that have no lane own nothing, but must come to
/// the barriers.
struct LaneWalk {
  int32_t sample, slab, lane;
  int32_t n_packs = 0;
  int32_t n_cut = 0;  ///< and a last pack with this many elements, at `cut_offset`
  int64_t stride, offset, cut_offset = 0;
  int64_t period;  ///< of the first pack; the next are plan.block_rows apart

  __device__ LaneWalk(const ChannelLanes& plan, unsigned slab_number, int pack)
      : sample(static_cast<int32_t>(slab_number) / plan.slabs),
        slab(static_cast<int32_t>(slab_number) % plan.slabs),
        lane(static_cast<int32_t>(blockIdx.y) * plan.block_lanes +
             static_cast<int32_t>(threadIdx.x)),
        stride(static_cast<int64_t>(plan.block_rows) * plan.lanes * pack) {
    const auto row = static_cast<int32_t>(threadIdx.y);
    const int64_t begin = slab * plan.slab_periods;
    const int64_t whole = plan.whole_periods + (lane < plan.rest_lanes ? 1 : 0) - begin;
    // Periods of the slab that are whole packs on this lane.
    const auto n = static_cast<int32_t>(whole < plan.slab_periods ? whole : plan.slab_periods);
    if (lane < plan.lanes && n > row) n_packs = (n - 1 - row) / plan.block_rows + 1;
    const int64_t sample_begin = sample * plan.elements;
    period = begin + row;
    offset = sample_begin + (period * plan.lanes + lane) * pack;
    const int64_t cut = plan.whole_periods - begin;
    if (lane == plan.rest_lanes && cut >= 0 && cut < plan.slab_periods &&
        static_cast<int32_t>(cut) % plan.block_rows == row) {
      n_cut = plan.rest_elements;
      cut_offset = sample_begin + plan.elements - n_cut;
    }
  }
};

/// Shared memory of sum_rows over V numbers a thread.
inline size_t row_sum_bytes(const ChannelLanes& plan, int v) {
  const auto half = static_cast<size_t>((plan.block_rows + 1) / 2);
  return std::max<size_t>(half, 1) * static_cast<size_t>(plan.block_lanes * v) * sizeof(double);
}

/// The sum over the block's rows (threadIdx.y) of each lane's numbers, as a tree of halves; row 0
/// has it.  All threads of the block call it.
template <int V>
__device__ void sum_rows(double (&v)[V], double* shared) {
  const auto lane = static_cast<int>(threadIdx.x), row = static_cast<int>(threadIdx.y);
  const auto n_lanes = static_cast<int>(blockDim.x);
  for (int n = static_cast<int>(blockDim.y); n > 1;) {
    const int half = (n + 1) / 2;
    if (row >= half && row < n) {
      BORA_UNROLL
      for (int j = 0; j < V; ++j) shared[((row - half) * V + j) * n_lanes + lane] = v[j];
    }
    __syncthreads();
    if (row < n - half) {
      BORA_UNROLL
      for (int j = 0; j < V; ++j) v[j] += shared[(row * V + j) * n_lanes + lane];
    }
    __syncthreads();
    n = half;
  }
}

/// Row 0's numbers for all rows.
template <int V>
__device__ void share_first_row(double (&v)[V], double* shared) {
  const auto lane = static_cast<int>(threadIdx.x), n_lanes = static_cast<int>(blockDim.x);
  if (threadIdx.y == 0) {
    BORA_UNROLL
    for (int j = 0; j < V; ++j) shared[j * n_lanes + lane] = v[j];
  }
  __syncthreads();
  BORA_UNROLL
  for (int j = 0; j < V; ++j) v[j] = shared[j * n_lanes + lane];
  __syncthreads();
}

inline constexpr int kMergeChannels = 8, kMergeRows = 32;

/// A grid of blocks (kMergeChannels, kMergeRows) for each sample's channels.
inline LaunchShape merge_shape(int64_t samples, int64_t channels) {
  LaunchShape shape;
  shape.grid = dim3(static_cast<unsigned>(samples),
                    static_cast<unsigned>((channels + kMergeChannels - 1) / kMergeChannels));
  shape.block = dim3(kMergeChannels, kMergeRows);
  shape.shared_bytes = kMergeChannels * kMergeRows / 2 * sizeof(double);
  return shape;
}

#endif

}  // namespace bora::kernels::cuda
