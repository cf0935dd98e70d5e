// SPDX-License-Identifier: Apache-2.0
// A reduction of kernels/reduce.hpp over one flat array, 16 bytes a thread.  The functor is the one
// that the CPU uses; here it works on a copy of the thread's pack (its pointer `x` is turned to
// registers).  Two stages in an order fixed by the number of elements: packs of a chunk to threads
// by turns, a tree over the block, then the chunks likewise.
#pragma once

#include "kernels/cuda/vector.hpp"
#include "kernels/reduce.hpp"

namespace bora::kernels::cuda {

#if defined(BORA_DEVICE_CODE)

inline constexpr int kReduceThreads = 256, kReduceMaxChunks = 2048;

/// The block's states joined as a tree of halves; thread 0 has the result.
template <class F>
__device__ void merge_block(const F& f, typename F::State& s, typename F::Element* shared) {
  const auto t = static_cast<int>(threadIdx.x);
  for (int half = kReduceThreads / 2; half > 0; half /= 2) {
    if (t >= half && t < 2 * half) {
      BORA_UNROLL
      for (int k = 0; k < F::kWidth; ++k) shared[k * kReduceThreads + t - half] = s.v[k];
    }
    __syncthreads();
    if (t < half) {
      typename F::State other;
      BORA_UNROLL
      for (int k = 0; k < F::kWidth; ++k) other.v[k] = shared[k * kReduceThreads + t];
      f.merge(s, other);
    }
    __syncthreads();
  }
}

template <class T, bool kStores, bool kWhole, class F>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_packs_chunks(int64_t n, int64_t chunk, F f, typename F::Element* __restrict__ partial) {
  constexpr int V = kPack<T>;
  BORA_DYNAMIC_SHARED(typename F::Element, shared);
  const int64_t begin = blockIdx.x * chunk, stop = begin + chunk < n ? begin + chunk : n;
  typename F::State s = f.identity();
  for (int64_t at = begin + static_cast<int64_t>(threadIdx.x) * V; at < stop;
       at += kReduceThreads * V) {
    const bool full = n - at >= V;
    const int count = full ? V : static_cast<int>(n - at);
    acc_t<T> wide[V];
    unpack<T>(load_some(f.x + at, count, kWhole && full), wide);
    T own[V];
    BORA_UNROLL
    for (int j = 0; j < V; ++j) own[j] = static_cast<T>(wide[j]);
    F local = f;
    local.x = own;
    BORA_UNROLL
    for (int j = 0; j < V; ++j)
      if (full || j < count) local.add(s, 0, j, 0);
    if constexpr (kStores) {
      BORA_UNROLL
      for (int j = 0; j < V; ++j) wide[j] = load(own[j]);
      store_some(f.x + at, pack<T>(wide), count, kWhole && full);
    }
  }
  merge_block(f, s, shared);
  if (threadIdx.x == 0) {
    BORA_UNROLL
    for (int k = 0; k < F::kWidth; ++k) partial[blockIdx.x * F::kWidth + k] = s.v[k];
  }
}

template <class F>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_packs_merge(int n_chunks, F f, const typename F::Element* __restrict__ partial) {
  BORA_DYNAMIC_SHARED(typename F::Element, shared);
  typename F::State s = f.identity();
  for (auto c = static_cast<int>(threadIdx.x); c < n_chunks; c += kReduceThreads) {
    typename F::State other;
    BORA_UNROLL
    for (int k = 0; k < F::kWidth; ++k) other.v[k] = partial[c * F::kWidth + k];
    f.merge(s, other);
  }
  merge_block(f, s, shared);
  if (threadIdx.x == 0) f.store(0, 0, s);
}

/// f.store(0, 0, state of f.x[0 .. n)).  Floor: one read of x (and one write where kStores: f.add
/// changes x).
template <class T, bool kStores, class F>
void reduce_packs(const char* what, Stream stream, int64_t n, const F& f) {
  using Element = typename F::Element;
  constexpr int64_t kTurn = kReduceThreads * kPack<T>;  // elements that a block takes at a time
  const int64_t turns = (n + kTurn - 1) / kTurn;
  const int64_t wanted = std::clamp<int64_t>(turns / 8, 1, kReduceMaxChunks);
  const int64_t chunk = std::max<int64_t>((turns + wanted - 1) / wanted, 1) * kTurn;
  const int64_t n_chunks = std::max<int64_t>((n + chunk - 1) / chunk, 1);
  Tensor scratch = Tensor::empty({n_chunks, F::kWidth}, dtype_of<Element>, stream.device);
  auto* const partial = scratch.data<Element>();
  LaunchShape shape{.grid = static_cast<unsigned>(n_chunks), .block = kReduceThreads};
  shape.shared_bytes = F::kWidth * kReduceThreads * sizeof(Element);
  launch(what, stream, shape,
         aligned(f.x) ? reduce_packs_chunks<T, kStores, true, F>
                      : reduce_packs_chunks<T, kStores, false, F>,
         n, chunk, f, partial);
  shape.grid = 1;
  launch(what, stream, shape, reduce_packs_merge<F>, static_cast<int>(n_chunks), f, partial);
}

#endif

}  // namespace bora::kernels::cuda
