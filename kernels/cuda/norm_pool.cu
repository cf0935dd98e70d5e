// SPDX-License-Identifier: Apache-2.0
// Norm and max-pool in one pass.  By hand: two outputs of different extents from one read.  Floors:
// see kernels/norm_pool.hpp.
#include "kernels/cuda/norm_pool.hpp"

#include "kernels/cuda/activation.hpp"
#include "kernels/cuda/norm_gradient.hpp"
#include "kernels/cuda/pool_grid.hpp"
#include "kernels/volume.hpp"

namespace bora::kernels::cuda {
namespace {

/// A thread takes windows of one lane: 8 packs in, 8 packs and the largest out.  `windows` counts
/// those cut by the border, too; they have no pooled cell.
template <class T, class Act>
__global__ void __launch_bounds__(kLaneThreads, 2)
    norm_pool_windows(ChannelLanes plan, NormTables<acc_t<T>> tables, Act act, Grid32 windows,
                      Grid32 in, Grid32 out, uint32_t sample_windows, const T* __restrict__ x,
                      const T* __restrict__ residual, T* __restrict__ y, T* __restrict__ pooled,
                      uint8_t* __restrict__ winner) {
  constexpr int V = kPack<T>, U = kUnit<T>;
  using A = acc_t<T>;
  BORA_DYNAMIC_SHARED(A, shared);
  const LaneWalk walk(plan, gridDim.x - 1 - blockIdx.x, V);
  const LaneFactors<T, 3> f(plan, tables, walk.sample, shared);
  const int64_t channels = plan.channels, c = static_cast<int64_t>(walk.lane) * V;
  for (int32_t i = 0; i < walk.n_packs; ++i) {
    const auto number = static_cast<uint32_t>(walk.sample) * sample_windows +
                        static_cast<uint32_t>(walk.period + i * plan.block_rows);
    const Cell32 window = windows.cell(number);
    const uint32_t d = 2 * window.d, h = 2 * window.h, w = 2 * window.w;
    const bool far_d = d + 1 < in.d.divisor, far_h = h + 1 < in.h.divisor,
               far_w = w + 1 < in.w.divisor;
    const bool complete = far_d && far_h && far_w;
    Bits128 best{};
    Winners<V> places;
    BORA_UNROLL
    for (int k = 0; k < 8; ++k) {
      const bool inside = (!(k & 4) || far_d) && (!(k & 2) || far_h) && (!(k & 1) || far_w);
      if (!inside) continue;
      const int64_t at =
          static_cast<int64_t>(in.number(window.n, d + (k >> 2), h + (k >> 1 & 1), w + (k & 1))) *
              channels +
          c;
      const Bits128 from = load_bits(x + at);
      const Bits128 rest = residual ? load_bits(residual + at) : Bits128{};
      Bits128 result;
      Bits128 largest = best;
      BORA_UNROLL
      for (int unit = 0; unit < V / U; ++unit) {
        A z[U], r[U] = {}, b[U], rounded[U];
        unpack_unit<T>(from, unit, z);
        if (residual) unpack_unit<T>(rest, unit, r);
        BORA_UNROLL
        for (int e = 0; e < U; ++e) {
          const int j = unit * U + e;
          z[e] = multiply_add(f.centred(z[e], j), f.scale(j), f.shift(j));
          if (residual) z[e] += r[e];
          z[e] = act.value(z[e]);
        }
        pack_unit<T>(z, unit, result);
        unpack_unit<T>(result, unit, rounded);  // what is pooled is y as stored
        unpack_unit<T>(best, unit, b);
        BORA_UNROLL
        for (int e = 0; e < U; ++e) {
          const int j = unit * U + e;
          const bool wins = k == 0 || beats(rounded[e], b[e]);
          b[e] = wins ? rounded[e] : b[e];
          if (wins)
            places.word[j / 4] = (places.word[j / 4] & ~(0xffu << (j % 4 * 8))) |
                                 static_cast<uint32_t>(k) << (j % 4 * 8);
        }
        pack_unit<T>(b, unit, largest);
      }
      best = largest;
      store_bits(y + at, result);
    }
    if (complete) {
      const int64_t at =
          static_cast<int64_t>(out.number(window.n, window.d, window.h, window.w)) * channels + c;
      store_bits(pooled + at, best);
      places.store(winner + at);
    }
  }
}

/// The sum of the skip's gradient and of the pooled copy's.
template <class T>
struct PooledGradient {
  static constexpr bool kLight = false;
  static constexpr int V = kPack<T>;
  struct Raw {
    Bits128 skip, pooled;
    Winners<V> winners;
    uint32_t place;  // in its window; 255: in none
  };
  const T* dy;  // or nullptr
  const T* dpooled;
  const uint8_t* winner;
  Grid32 in, out;
  uint32_t sample_rows;
  int64_t channels;

  BORA_HD Raw fetch(int64_t at, int64_t row, int sample, int, bool) const {
    const uint32_t number =
        static_cast<uint32_t>(sample) * sample_rows + static_cast<uint32_t>(row);
    const Cell32 cell = in.cell(number);
    const uint32_t d = cell.d / 2, h = cell.h / 2, w = cell.w / 2;
    Raw raw{};
    raw.place = 255;
    if (d < out.d.divisor && h < out.h.divisor && w < out.w.divisor) {
      const int64_t c = at - static_cast<int64_t>(number) * channels;
      const int64_t from = static_cast<int64_t>(out.number(cell.n, d, h, w)) * channels + c;
      raw.pooled = load_bits(dpooled + from);
      raw.winners.load(winner + from);
      raw.place = (cell.d & 1) * 4 + (cell.h & 1) * 2 + (cell.w & 1);
    }
    if (dy) raw.skip = load_bits(dy + at);
    return raw;
  }
  BORA_HD void unit(const Raw& raw, int k, acc_t<T> (&g)[kUnit<T>]) const {
    acc_t<T> p[kUnit<T>];
    unpack_unit<T>(raw.skip, k, g);
    unpack_unit<T>(raw.pooled, k, p);
    BORA_UNROLL
    for (int e = 0; e < kUnit<T>; ++e)
      if (raw.winners.get(k * kUnit<T> + e) == raw.place) g[e] += p[e];
  }
};

/// Whether the kernels here can take it: packs inside a cell, aligned, 32-bit cell numbers.
template <class T>
bool fits(const NormShape& shape, const Volume& v, const T* x, const T* other, const T* pooled,
          const T* residual, const uint8_t* winner) {
  return shape.channels % kPack<T> == 0 && Grid32::fits(v.n, v.size) && shape.numel() > 0 &&
         aligned(x) && aligned(other) && aligned(pooled) && aligned(residual) &&
         winners_aligned<kPack<T>>(winner);
}

Dims3 half(Dims3 size, int64_t round) {
  return {(size.d + round) / 2, (size.h + round) / 2, (size.w + round) / 2};
}

}  // namespace

bool norm_forward_pool(Stream stream, const NormShape& shape, const FusedActivation& activation,
                       const NormInput& in, Tensor& y, Tensor& pooled, Tensor& winner) {
  constexpr const char* kOp = "norm_forward_pool";
  const Volume v = volume_of(in.x, kOp);
  bool done = false;
  dispatch_device_float(in.x.dtype(), kOp, [&]<class T>() {
    const T* const x = in.x.data<T>();
    const T* const residual = data_or_null<T>(in.residual);
    T* const out = y.data<T>();
    done = fits<T>(shape, v, x, out, pooled.data<T>(), residual, winner.data<uint8_t>());
    if (!done) return;
    const Dims3 windows = half(v.size, 1);
    const int64_t sample_windows = v.n / shape.samples * windows.count();
    const ChannelLanes plan(shape.samples, sample_windows, shape.channels, kPack<T>);
    const NormTables<acc_t<T>> tables(shape, in, Tensor());
    dispatch_device_activation<T>(activation, [&]<class Act>(const Act& act) {
      launch(kOp, stream, plan.launch_shape(LaneFactors<T, 3>::bytes(plan)),
             norm_pool_windows<T, Act>, plan, tables, act, Grid32(windows), Grid32(v.size),
             Grid32(half(v.size, 0)), static_cast<uint32_t>(sample_windows), x, residual, out,
             pooled.data<T>(), winner.data<uint8_t>());
    });
  });
  return done;
}

bool norm_pool_backward_sums(Stream stream, const NormShape& shape,
                             const FusedActivation& activation, const NormInput& in,
                             const NormPoolGradient& gradient, Tensor& sums) {
  constexpr const char* kOp = "norm_pool_backward_sums";
  const Volume v = volume_of(in.x, kOp);
  bool done = false;
  dispatch_device_float(in.x.dtype(), kOp, [&]<class T>() {
    constexpr int V = kPack<T>;
    const T* const x = in.x.data<T>();
    const PooledGradient<T> source{data_or_null<T>(gradient.dy),
                                   gradient.dpooled.data<T>(),
                                   gradient.winner.data<uint8_t>(),
                                   Grid32(v.size),
                                   Grid32(half(v.size, 0)),
                                   static_cast<uint32_t>(shape.rows),
                                   shape.channels};
    done = fits<T>(shape, v, x, source.dy, source.dpooled, nullptr, source.winner);
    if (!done) return;
    const ChannelLanes plan(shape.samples, shape.rows, shape.channels, V);
    const NormTables<acc_t<T>> tables(shape, in, Tensor());
    Tensor parts =
        Tensor::empty({shape.samples, plan.slabs, 2, plan.slots(V)}, DType::f64, stream.device);
    const size_t shared =
        std::max(row_sum_bytes(plan, V < 4 ? V : 4), LaneFactors<T, 3>::bytes(plan));
    const T* const none = nullptr;
    dispatch_device_activation<T>(activation, [&]<class Act>(const Act& act) {
      launch(kOp, stream, plan.launch_shape(shared),
             norm_sums_slabs<T, Act, PooledGradient<T>, true>, plan, tables, act, x, none, source,
             static_cast<T*>(nullptr), parts.data<double>());
    });
    launch(kOp, stream, merge_shape(shape.samples, shape.channels), norm_sums_merge<acc_t<T>>, plan,
           tables, V, parts.data<double>(), sums.data<double>());
  });
  return done;
}

bool norm_pool_backward_apply(Stream stream, const NormShape& shape,
                              const FusedActivation& activation, const NormInput& in,
                              const NormPoolGradient& gradient, const Tensor& coefficients,
                              Tensor& dx) {
  constexpr const char* kOp = "norm_pool_backward_apply";
  const Volume v = volume_of(in.x, kOp);
  bool done = false;
  dispatch_device_float(in.x.dtype(), kOp, [&]<class T>() {
    const T* const x = in.x.data<T>();
    const PooledGradient<T> source{data_or_null<T>(gradient.dy),
                                   gradient.dpooled.data<T>(),
                                   gradient.winner.data<uint8_t>(),
                                   Grid32(v.size),
                                   Grid32(half(v.size, 0)),
                                   static_cast<uint32_t>(shape.rows),
                                   shape.channels};
    T* const out = dx.data<T>();
    done = fits<T>(shape, v, x, source.dy, source.dpooled, out, source.winner);
    if (!done) return;
    const ChannelLanes plan(shape.samples, shape.rows, shape.channels, kPack<T>);
    const NormTables<acc_t<T>> tables(shape, in, coefficients);
    const T* const none = nullptr;
    dispatch_device_activation<T>(activation, [&]<class Act>(const Act& act) {
      launch(kOp, stream, plan.launch_shape(LaneFactors<T, 5>::bytes(plan)),
             norm_apply_slabs<T, Act, PooledGradient<T>, true>, plan, tables, act, x, none, source,
             out);
    });
  });
  return done;
}

}  // namespace bora::kernels::cuda
