// SPDX-License-Identifier: Apache-2.0
// Where backward of a norm gets dy from: a tensor, or (norm_pool.cu) the sum of a skip connection's
// gradient and that of a max-pooled copy, formed on the way.  A source has two steps, so that all
// loads of a batch are under way before the first number is needed.
#pragma once

#include "kernels/cuda/norm_factors.hpp"
#include "kernels/fused_activation.hpp"
#include "kernels/norm_element.hpp"

namespace bora::kernels::cuda {

template <class T>
struct TensorGradient {
  static constexpr bool kLight = true;  // needs few registers
  using Raw = Bits128;
  const T* dy;

  /// n elements at element `at`, which is row `row` of all samples' (used where channels % pack is
  /// 0).
  BORA_HD Raw fetch(int64_t at, int64_t, int, int n, bool whole) const {
    return load_some(dy + at, n, whole);
  }
  BORA_HD void unit(const Raw& raw, int k, acc_t<T> (&g)[kUnit<T>]) const {
    unpack_unit<T>(raw, k, g);
  }
};

#if defined(BORA_DEVICE_CODE)

/// visit(k, dz, x - mean) for each unit k of a pack: few registers are live at a time.
template <class T, int K, class Act, class Source, class F>
__device__ void visit_dz(const Bits128& x, const Bits128& residual, bool has_residual,
                         const Source& source, const typename Source::Raw& raw,
                         const LaneFactors<T, K>& f, const Act& act, const F& visit) {
  using A = acc_t<T>;
  constexpr int U = kUnit<T>;
  BORA_UNROLL
  for (int k = 0; k < kPack<T> / U; ++k) {
    A centred[U], g[U], r[U] = {};
    if (Act::kNeedsZ && has_residual) unpack_unit<T>(residual, k, r);
    unpack_unit<T>(x, k, centred);
    source.unit(raw, k, g);
    BORA_UNROLL
    for (int e = 0; e < U; ++e) {
      const int j = k * U + e;
      centred[e] = f.centred(centred[e], j);
      g[e] = dz_at<A>(act, g[e], centred[e], f.scale(j), f.shift(j), r[e]);
    }
    visit(k, g, centred);
  }
}

/// Blocks that share an SM: 80 registers a thread where that needs no spilling, else up to 128.
template <class T, class Act, class Source, bool kWhole, bool kSums>
constexpr int kBlocksPerSm = !kWhole ? 1
                             : std::is_same_v<Act, RareActivationAt> || !Source::kLight ||
                                     (kSums && sizeof(T) == 2 && Act::kNeedsZ)
                                 ? 2
                                 : 3;

/// Sums of dz and dz * (x - mean), slot by slot: parts (samples, slabs, 2, slots).
template <class T, class Act, class Source, bool kWhole>
__global__ void __launch_bounds__(kLaneThreads, kBlocksPerSm<T, Act, Source, kWhole, true>)
    norm_sums_slabs(ChannelLanes plan, NormTables<acc_t<T>> tables, Act act, const T* x,
                    const T* residual, Source source, T* dz, double* __restrict__ parts) {
  constexpr int V = kPack<T>, U = kUnit<T>, kBatch = 2, kAtOnce = V < 4 ? V : 4;
  using A = acc_t<T>;
  BORA_DYNAMIC_SHARED(double, shared);
  const LaneWalk walk(plan, blockIdx.x, V);
  const LaneFactors<T, 3> f(plan, tables, walk.sample, reinterpret_cast<A*>(shared));
  const bool adds = Act::kNeedsZ && residual != nullptr;
  A s1[V] = {}, s2[V] = {};
  const auto take = [&](const Bits128& from, const Bits128& rest, const typename Source::Raw& raw,
                        int64_t place, int n) {
    Bits128 kept;
    visit_dz<T>(from, rest, adds, source, raw, f, act, [&](int k, A(&g)[U], const A(&centred)[U]) {
      BORA_UNROLL
      for (int e = 0; e < U; ++e) {
        if (!kWhole && k * U + e >= n) g[e] = A(0);
        s1[k * U + e] += g[e];
        s2[k * U + e] = multiply_add(g[e], centred[e], s2[k * U + e]);
      }
      pack_unit<T>(g, k, kept);
    });
    if (dz) store_some(dz + place, kept, n, kWhole);
  };
  int64_t at = walk.offset, row = walk.period;
  int32_t i = 0;
  for (; i + kBatch <= walk.n_packs; i += kBatch, at += kBatch * walk.stride) {
    Bits128 from[kBatch], rest[kBatch] = {};
    typename Source::Raw raw[kBatch];
    BORA_UNROLL
    for (int u = 0; u < kBatch; ++u, row += plan.block_rows) {
      from[u] = load_some(x + at + u * walk.stride, V, kWhole);
      raw[u] = source.fetch(at + u * walk.stride, row, walk.sample, V, kWhole);
      if (adds) rest[u] = load_some(residual + at + u * walk.stride, V, kWhole);
    }
    BORA_UNROLL
    for (int u = 0; u < kBatch; ++u) take(from[u], rest[u], raw[u], at + u * walk.stride, V);
  }
  const auto one = [&](int64_t place, int n) {
    take(load_some(x + place, n, kWhole), adds ? load_some(residual + place, n, kWhole) : Bits128{},
         source.fetch(place, row, walk.sample, n, kWhole), place, n);
  };
  if (i < walk.n_packs) one(at, V);
  if (!kWhole && walk.n_cut > 0) one(walk.cut_offset, walk.n_cut);

  const int32_t n_slots = plan.slots(V);
  double* const out =
      parts + static_cast<int64_t>(walk.sample * plan.slabs + walk.slab) * 2 * n_slots;
  __syncthreads();  // the factors' memory is used again
  BORA_UNROLL
  for (int first = 0; first < 2 * V; first += kAtOnce) {
    double sum[kAtOnce];
    BORA_UNROLL
    for (int j = 0; j < kAtOnce; ++j)
      sum[j] = static_cast<double>(first < V ? s1[first % V + j] : s2[first % V + j]);
    sum_rows(sum, shared);
    if (threadIdx.y == 0 && walk.lane < plan.lanes) {
      BORA_UNROLL
      for (int j = 0; j < kAtOnce; ++j)
        out[first / V * n_slots + walk.lane * V + first % V + j] = sum[j];
    }
  }
}

/// dx = dz scale + (x - mean) c0 + c1.  Slabs go backwards: see norm_forward.cu.
template <class T, class Act, class Source, bool kWhole>
__global__ void __launch_bounds__(kLaneThreads, kBlocksPerSm<T, Act, Source, kWhole, false>)
    norm_apply_slabs(ChannelLanes plan, NormTables<acc_t<T>> tables, Act act, const T* x,
                     const T* residual, Source source, T* dx) {
  constexpr int V = kPack<T>, U = kUnit<T>, kBatch = 2;
  using A = acc_t<T>;
  BORA_DYNAMIC_SHARED(A, shared);
  const LaneWalk walk(plan, gridDim.x - 1 - blockIdx.x, V);
  const LaneFactors<T, 5> f(plan, tables, walk.sample, shared);
  const bool adds = Act::kNeedsZ && residual != nullptr;
  const auto put = [&](const Bits128& from, const Bits128& rest, const typename Source::Raw& raw,
                       int64_t place, int n) {
    Bits128 result;
    visit_dz<T>(from, rest, adds, source, raw, f, act, [&](int k, A(&g)[U], const A(&centred)[U]) {
      BORA_UNROLL
      for (int e = 0; e < U; ++e) {
        const int j = k * U + e;
        g[e] = multiply_add(g[e], f.scale(j), multiply_add(centred[e], f.v[3][j], f.v[4][j]));
      }
      pack_unit<T>(g, k, result);
    });
    store_some(dx + place, result, n, kWhole);
  };
  int64_t at = walk.offset, row = walk.period;
  int32_t i = 0;
  for (; i + kBatch <= walk.n_packs; i += kBatch, at += kBatch * walk.stride) {
    Bits128 from[kBatch], rest[kBatch] = {};
    typename Source::Raw raw[kBatch];
    BORA_UNROLL
    for (int u = 0; u < kBatch; ++u, row += plan.block_rows) {
      from[u] = load_some(x + at + u * walk.stride, V, kWhole);
      raw[u] = source.fetch(at + u * walk.stride, row, walk.sample, V, kWhole);
      if (adds) rest[u] = load_some(residual + at + u * walk.stride, V, kWhole);
    }
    BORA_UNROLL
    for (int u = 0; u < kBatch; ++u) put(from[u], rest[u], raw[u], at + u * walk.stride, V);
  }
  const auto one = [&](int64_t place, int n) {
    put(load_some(x + place, n, kWhole), adds ? load_some(residual + place, n, kWhole) : Bits128{},
        source.fetch(place, row, walk.sample, n, kWhole), place, n);
  };
  if (i < walk.n_packs) one(at, V);
  if (!kWhole && walk.n_cut > 0) one(walk.cut_offset, walk.n_cut);
}

/// sums (samples, 2 channels) from those of the slots in all slabs.
template <class A>
__global__ void __launch_bounds__(kMergeChannels* kMergeRows)
    norm_sums_merge(ChannelLanes plan, NormTables<A> tables, int pack,
                    const double* __restrict__ parts, double* __restrict__ sums) {
  BORA_DYNAMIC_SHARED(double, shared);
  const auto c = static_cast<int32_t>(blockIdx.y * kMergeChannels + threadIdx.x);
  const int64_t sample = blockIdx.x;
  const int32_t n_slots = plan.slots(pack);
  const double* const own = parts + sample * plan.slabs * 2 * n_slots;
  double sum[1] = {0.0}, products[1] = {0.0};
  if (c < plan.channels)
    for (int32_t slot = c; slot < n_slots; slot += plan.channels)
      for (auto slab = static_cast<int32_t>(threadIdx.y); slab < plan.slabs; slab += kMergeRows) {
        const double* const part = own + static_cast<int64_t>(slab) * 2 * n_slots + slot;
        sum[0] += part[0];
        products[0] += part[n_slots];
      }
  sum_rows(sum, shared);
  sum_rows(products, shared);
  if (threadIdx.y != 0 || c >= plan.channels) return;
  // So far with x - mean as statistics hold the mean; now xhat.
  const A* const s = tables.statistics + (sample * tables.groups + c / tables.group_channels) * 3;
  double* const out = sums + sample * 2 * plan.channels;
  out[c] = sum[0];
  out[plan.channels + c] =
      (products[0] - static_cast<double>(s[1]) * sum[0]) * static_cast<double>(s[2]);
}

#endif

}  // namespace bora::kernels::cuda
