// SPDX-License-Identifier: Apache-2.0
// What norms know per channel, for the threads of a lane: z = (x - mean) * scale + shift, and the
// two coefficients of backward's second pass.
#pragma once

#include "kernels/cuda/channel_lanes.hpp"
#include "kernels/norm.hpp"

namespace bora::kernels::cuda {

/// The numbers of kernels/norm.hpp as they lie in memory.
template <class A>
struct NormTables {
  const A* statistics;
  const A* gamma;
  const A* beta;
  const A* coefficients;  ///< nullptr but for norm_backward_apply
  int32_t groups, group_channels;

  NormTables(const NormShape& shape, const NormInput& in, const Tensor& coefficients_tensor)
      : statistics(in.statistics.data<A>()),
        gamma(in.gamma.data<A>()),
        beta(in.beta.data<A>()),
        coefficients(coefficients_tensor.defined() ? coefficients_tensor.data<A>() : nullptr),
        groups(static_cast<int32_t>(shape.groups)),
        group_channels(static_cast<int32_t>(shape.group_channels())) {}
};

/// Of the elements of one lane's packs; c0, c1 only where K is 5.
template <class T, int K>
struct LaneFactors {
  static constexpr int V = kPack<T>;
  using A = acc_t<T>;
  A v[K][V];

#if defined(BORA_DEVICE_CODE)
  /// The block forms each number once, in `shared` (bytes() of it), then each thread takes its own.
  __device__ LaneFactors(const ChannelLanes& plan, const NormTables<A>& tables, int sample,
                         A* shared) {
    const auto n_lanes = static_cast<int32_t>(blockDim.x);
    const int32_t n = n_lanes * V, first = static_cast<int32_t>(blockIdx.y) * n;
    const auto me = static_cast<int32_t>(threadIdx.y * blockDim.x + threadIdx.x);
    const auto n_threads = static_cast<int32_t>(blockDim.x * blockDim.y);
    for (int32_t i = me; i < n; i += n_threads) {
      const int32_t c = (first + i) % plan.channels, g = c / tables.group_channels;
      const int64_t group = static_cast<int64_t>(sample) * tables.groups + g;
      const A* const s = tables.statistics + group * 3;
      const A scale = tables.gamma[c] * s[2];
      shared[i] = s[0];
      shared[n + i] = scale;
      shared[2 * n + i] = tables.beta[c] - s[1] * scale;  // s[1]: what A cannot hold of the mean
      if constexpr (K == 5) {
        shared[3 * n + i] = tables.coefficients[group * 2];
        shared[4 * n + i] = tables.coefficients[group * 2 + 1];
      }
    }
    __syncthreads();
    const auto own = static_cast<int32_t>(threadIdx.x) * V;
    BORA_UNROLL
    for (int k = 0; k < K; ++k) {
      BORA_UNROLL
      for (int j = 0; j < V; ++j) v[k][j] = shared[k * n + own + j];
    }
  }
  static size_t bytes(const ChannelLanes& plan) {
    return static_cast<size_t>(K * plan.block_lanes * V) * sizeof(A);
  }
  __device__ A centred(A x, int j) const { return x - v[0][j]; }
  __device__ A scale(int j) const { return v[1][j]; }
  __device__ A shift(int j) const { return v[2][j]; }
#endif
};

template <class T>
const T* data_or_null(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

}  // namespace bora::kernels::cuda
