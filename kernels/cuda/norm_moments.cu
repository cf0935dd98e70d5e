// SPDX-License-Identifier: Apache-2.0
// Moments of channels.  By hand: a column reduction of the launch shapes reads 2 bytes a thread and
// divides once an element.  Floor: one read of x.
//
// A thread takes its channels' values in batches of kLaneBatch: their mean and squared distances
// from it are formed in registers (no cancellation, whatever the data) and joined with what it has
// by Chan's formula, all in f32 relative to the thread's first value.  Threads of a block, then
// slabs, are joined in f64: mean of means, then distances from it, no divisions.
#include "kernels/cuda/channel_lanes.hpp"
#include "kernels/cuda/norm.hpp"

namespace bora::kernels::cuda {
namespace {

/// Count, mean and squared distances of the values of one thread, for each element of a pack.
template <class T>
struct ThreadMoments {
  static constexpr int V = kPack<T>;
  using A = acc_t<T>;
  A shift[V] = {}, mean[V] = {}, m2[V] = {};  // mean is that of x - shift
  A count = A(0);
  int n_cut = 0;  // the first n_cut elements have one value more

  /// Takes in M packs.
  template <int M>
  BORA_HD void add(const Bits128 (&packs)[M]) {
    constexpr int U = kUnit<T>;
    const A weight = A(M) / (count + A(M)), cross = count * weight;
    BORA_UNROLL
    for (int k = 0; k < V / U; ++k) {
      A x[M][U];
      BORA_UNROLL
      for (int i = 0; i < M; ++i) unpack_unit<T>(packs[i], k, x[i]);
      BORA_UNROLL
      for (int e = 0; e < U; ++e) {
        const int j = k * U + e;
        shift[j] = count == A(0) ? x[0][e] : shift[j];
        A sum = A(0), squares = A(0);
        BORA_UNROLL
        for (int i = 0; i < M; ++i) {
          x[i][e] -= shift[j];
          sum += x[i][e];
        }
        const A own = sum * A(1.0 / M);
        BORA_UNROLL
        for (int i = 0; i < M; ++i) squares = multiply_add(x[i][e] - own, x[i][e] - own, squares);
        const A delta = own - mean[j];
        mean[j] = multiply_add(delta, weight, mean[j]);
        m2[j] += multiply_add(delta * delta, cross, squares);
      }
    }
    count += A(M);
  }
  /// Takes in the first n elements of a pack, once and last.
  BORA_HD void add_cut(const Bits128& bits, int n) {
    A x[V];
    unpack<T>(bits, x);
    n_cut = n;
    const A weight = A(1) / (count + A(1));
    BORA_UNROLL
    for (int j = 0; j < V; ++j) {
      if (j >= n) continue;
      if (count == A(0)) shift[j] = x[j];
      const A delta = (x[j] - shift[j]) - mean[j];
      mean[j] = multiply_add(delta, weight, mean[j]);
      m2[j] = multiply_add(delta * delta, count * weight, m2[j]);
    }
  }
  BORA_HD double count_of(int j) const {
    return static_cast<double>(count) + (j < n_cut ? 1.0 : 0.0);
  }
  BORA_HD double mean_of(int j) const {
    return static_cast<double>(shift[j]) + static_cast<double>(mean[j]);
  }
};

/// Elements of a pack whose sums over rows are formed together: f64 takes two registers each.
template <class T>
constexpr int kAtOnce = kPack<T> < 4 ? kPack<T> : 4;

/// parts: for each (sample, slab) the slots' means, then their squared distances.
template <class T, bool kWhole>
__global__ void __launch_bounds__(kLaneThreads, kWhole ? 3 : 1)
    norm_moments_slabs(ChannelLanes plan, const T* __restrict__ x, double* __restrict__ parts) {
  constexpr int V = kPack<T>;
  BORA_DYNAMIC_SHARED(double, shared);
  const LaneWalk walk(plan, blockIdx.x, V);
  ThreadMoments<T> own;
  const T* from = x + walk.offset;
  int32_t i = 0;
  for (; i + kLaneBatch <= walk.n_packs; i += kLaneBatch, from += kLaneBatch * walk.stride) {
    Bits128 packs[kLaneBatch];
    BORA_UNROLL
    for (int u = 0; u < kLaneBatch; ++u) packs[u] = load_some(from + u * walk.stride, V, kWhole);
    own.add(packs);
  }
  for (; i < walk.n_packs; ++i, from += walk.stride) {
    const Bits128 one[1] = {load_some(from, V, kWhole)};
    own.add(one);
  }
  if (!kWhole && walk.n_cut > 0)
    own.add_cut(load_some(x + walk.cut_offset, walk.n_cut, false), walk.n_cut);

  const int32_t n_slots = plan.slots(V);
  double* const out =
      parts + static_cast<int64_t>(walk.sample * plan.slabs + walk.slab) * 2 * n_slots;
  BORA_UNROLL
  for (int first = 0; first < V; first += kAtOnce<T>) {
    const int32_t slot = walk.lane * V + first;
    double mean[kAtOnce<T>], m2[kAtOnce<T>];
    BORA_UNROLL
    for (int j = 0; j < kAtOnce<T>; ++j)  // 0 without values
      mean[j] = own.count_of(first + j) * own.mean_of(first + j);
    sum_rows(mean, shared);
    if (threadIdx.y == 0) {
      BORA_UNROLL
      for (int j = 0; j < kAtOnce<T>; ++j) {
        const int64_t n = plan.count_in_slab(walk.slab, plan.count_in_sample(slot + j, V));
        mean[j] = n > 0 ? mean[j] / static_cast<double>(n) : 0.0;
      }
    }
    share_first_row(mean, shared);
    BORA_UNROLL
    for (int j = 0; j < kAtOnce<T>; ++j) {
      const double delta = own.mean_of(first + j) - mean[j], n = own.count_of(first + j);
      m2[j] =
          n > 0.0 ? multiply_add(n * delta, delta, static_cast<double>(own.m2[first + j])) : 0.0;
    }
    sum_rows(m2, shared);
    if (threadIdx.y == 0 && walk.lane < plan.lanes) {
      BORA_UNROLL
      for (int j = 0; j < kAtOnce<T>; ++j) {
        out[slot + j] = mean[j];
        out[n_slots + slot + j] = m2[j];
      }
    }
  }
}

/// moments of a sample's channels from those of its slots in all slabs.  Block (channels, rows).
__global__ void __launch_bounds__(kMergeChannels* kMergeRows)
    norm_moments_merge(ChannelLanes plan, int pack, int64_t rows, const double* __restrict__ parts,
                       double* __restrict__ moments) {
  BORA_DYNAMIC_SHARED(double, shared);
  const auto c = static_cast<int32_t>(blockIdx.y * kMergeChannels + threadIdx.x);
  const int64_t sample = blockIdx.x;
  const int32_t n_slots = plan.slots(pack);
  const double* const own = parts + sample * plan.slabs * 2 * n_slots;
  // f(count, mean, m2) for this thread's slabs.
  const auto visit = [&](const auto& f) {
    if (c >= plan.channels) return;
    for (int32_t slot = c; slot < n_slots; slot += plan.channels) {
      const int64_t in_sample = plan.count_in_sample(slot, pack);
      for (auto slab = static_cast<int32_t>(threadIdx.y); slab < plan.slabs; slab += kMergeRows) {
        const double* const part = own + static_cast<int64_t>(slab) * 2 * n_slots + slot;
        const int64_t n = plan.count_in_slab(slab, in_sample);
        if (n > 0) f(static_cast<double>(n), part[0], part[n_slots]);
      }
    }
  };
  double mean[1] = {0.0}, m2[1] = {0.0};
  visit([&](double n, double part_mean, double) { mean[0] = multiply_add(n, part_mean, mean[0]); });
  sum_rows(mean, shared);
  mean[0] = rows > 0 ? mean[0] / static_cast<double>(rows) : 0.0;
  share_first_row(mean, shared);
  visit([&](double n, double part_mean, double part_m2) {
    const double delta = part_mean - mean[0];
    m2[0] += multiply_add(n * delta, delta, part_m2);
  });
  sum_rows(m2, shared);
  if (threadIdx.y != 0 || c >= plan.channels) return;
  double* const out = moments + sample * (1 + 2 * plan.channels);
  if (c == 0) out[0] = static_cast<double>(rows);
  out[1 + c] = mean[0];
  out[1 + plan.channels + c] = m2[0];
}

}  // namespace

void norm_moments(Stream stream, const NormShape& shape, const Tensor& x, Tensor& moments) {
  constexpr const char* kOp = "norm_moments";
  if (shape.samples == 0) return;
  dispatch_device_float(x.dtype(), kOp, [&]<class T>() {
    constexpr int V = kPack<T>;
    const ChannelLanes plan(shape.samples, shape.rows, shape.channels, V);
    Tensor parts =
        Tensor::empty({shape.samples, plan.slabs, 2, plan.slots(V)}, DType::f64, stream.device);
    const T* const from = x.data<T>();
    launch(kOp, stream, plan.launch_shape(row_sum_bytes(plan, kAtOnce<T>)),
           plan.whole(from) ? norm_moments_slabs<T, true> : norm_moments_slabs<T, false>, plan,
           from, parts.data<double>());
    launch(kOp, stream, merge_shape(shape.samples, shape.channels), norm_moments_merge, plan, V,
           shape.rows, parts.data<double>(), moments.data<double>());
  });
}

}  // namespace bora::kernels::cuda
