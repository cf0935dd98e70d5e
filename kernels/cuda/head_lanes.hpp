// SPDX-License-Identifier: Apache-2.0
// What the kernels of a head share (head.cu, head_loss.cu): a cell's channels are packs of a group
// of threads within a warp, its few outputs are registers of each.
#pragma once

#include "kernels/cuda/channel_lanes.hpp"

namespace bora::kernels::cuda {

/// The most outputs, and the most packs of a cell: a warp.
inline constexpr int kHeadOutputs = 8, kHeadLanes = 32;

inline int64_t pack_elements(DType type) { return 16 / size_of(type); }

/// The smallest group, a power of two, that holds the lanes of a cell.
inline int log_group_of(int lanes) {
  int log_group = 0;
  while ((1 << log_group) < lanes) ++log_group;
  return log_group;
}

/// f<K>() with the smallest of 1, 2, 4, 8 that holds n outputs.
template <class F>
void dispatch_outputs(int64_t n, const F& f) {
  if (n <= 1) return f.template operator()<1>();
  if (n <= 2) return f.template operator()<2>();
  if (n <= 4) return f.template operator()<4>();
  f.template operator()<8>();
}

#if defined(BORA_DEVICE_CODE)

/// The weights of one lane's channels, 0 for outputs that there are not.
template <class T, int K>
__device__ void load_weights(const T* w, int n_out, int64_t channels, int lane, bool active,
                             acc_t<T> (&out)[K][kPack<T>]) {
  BORA_UNROLL
  for (int k = 0; k < K; ++k) {
    const bool there = active && k < n_out;
    unpack<T>(there ? load_bits(w + k * channels + lane * kPack<T>) : Bits128{}, out[k]);
  }
}

/// The sum over a group of threads, for all of them.  The whole warp calls it.
template <class A>
__device__ A sum_group(A v, int group) {
  for (int other = group / 2; other > 0; other /= 2) v += __shfl_xor_sync(0xffffffffu, v, other);
  return v;
}

/// sums[k] of one cell's pack and the weights, over the group: the cell's outputs without bias.
template <class T, int K>
__device__ void cell_outputs(const Bits128& bits, const acc_t<T> (&weights)[K][kPack<T>], int group,
                             acc_t<T> (&out)[K]) {
  acc_t<T> v[kPack<T>];
  unpack<T>(bits, v);
  BORA_UNROLL
  for (int k = 0; k < K; ++k) {
    out[k] = acc_t<T>(0);
    BORA_UNROLL
    for (int j = 0; j < kPack<T>; ++j) out[k] = multiply_add(v[j], weights[k][j], out[k]);
    out[k] = sum_group(out[k], group);
  }
}

/// out (samples, n) from the numbers of all slabs, parts (samples, slabs, pitch), of which n are
/// taken.  Block (kMergeChannels, kMergeRows), grid of merge_shape(samples, n).
template <class W>
__global__ void __launch_bounds__(kMergeChannels* kMergeRows)
    head_slabs_merge(int slabs, int n, int64_t pitch, bool add, const double* __restrict__ parts,
                     W* __restrict__ out) {
  BORA_DYNAMIC_SHARED(double, shared);
  const auto i = static_cast<int>(blockIdx.y * kMergeChannels + threadIdx.x);
  const double* const from = parts + blockIdx.x * slabs * pitch;
  double sum[1] = {0.0};
  if (i < n)
    for (auto slab = static_cast<int>(threadIdx.y); slab < slabs; slab += kMergeRows)
      sum[0] += from[slab * pitch + i];
  sum_rows(sum, shared);
  if (threadIdx.y != 0 || i >= n) return;
  W* const at = out + static_cast<int64_t>(blockIdx.x) * n + i;
  const auto total = static_cast<acc_t<W>>(sum[0]);
  *at = static_cast<W>(add ? load(*at) + total : total);
}

#endif

}  // namespace bora::kernels::cuda
