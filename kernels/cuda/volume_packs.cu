// SPDX-License-Identifier: Apache-2.0
// By hand: the generic loop moves 2 bytes a thread and divides in 64 bits five times for it.
#include "kernels/cuda/volume_packs.hpp"

#include "kernels/cuda/pool_grid.hpp"
#include "kernels/resample.hpp"
#include "kernels/volume.hpp"

namespace bora::kernels::cuda {
namespace {

/// f(cell, its number, pack of its channels) for all packs of a grid; neighbouring threads take
/// neighbouring packs.
template <class F>
__global__ void __launch_bounds__(kBlockThreads, 3)
    volume_packs(uint32_t n, FastDivide packs, Grid32 grid, F f) {
  const uint32_t step = gridDim.x * blockDim.x;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
    uint32_t pack_number = i;
    const uint32_t cell = packs.split(pack_number);
    f(grid.cell(cell), cell, pack_number);
  }
}

/// Launches over `v`'s packs; false if there are too many.
template <class T, class F>
bool launch_packs(const char* what, Stream stream, const Volume& v, const F& f) {
  const int64_t packs = v.c / kPack<T>, n = v.cells() * packs;
  // Twice as far off as a step of the loop may reach.
  if (n >= (int64_t{1} << 31) - 65536 * kBlockThreads) return false;
  if (n > 0)
    launch(what, stream, {.grid = blocks_for(n)}, volume_packs<F>, static_cast<uint32_t>(n),
           FastDivide(packs), Grid32(v.size), f);
  return true;
}

template <class T>
struct MaxPool2 {
  static constexpr int V = kPack<T>, U = kUnit<T>;
  Grid32 in;
  int64_t channels;
  const T* x;
  T* y;
  uint8_t* winner;

  BORA_HD void operator()(const Cell32& o, uint32_t number, uint32_t pack_number) const {
    Bits128 from[8];
    BORA_UNROLL
    for (int k = 0; k < 8; ++k) {
      const uint32_t cell =
          in.number(o.n, 2 * o.d + (k >> 2), 2 * o.h + (k >> 1 & 1), 2 * o.w + (k & 1));
      from[k] = load_bits(x + cell * channels + pack_number * V);
    }
    Bits128 result;
    Winners<V> places;
    BORA_UNROLL
    for (int unit = 0; unit < V / U; ++unit) {
      acc_t<T> best[U], v[U];
      uint32_t place[U] = {};
      unpack_unit<T>(from[0], unit, best);
      BORA_UNROLL
      for (int k = 1; k < 8; ++k) {
        unpack_unit<T>(from[k], unit, v);
        BORA_UNROLL
        for (int e = 0; e < U; ++e) {
          const bool wins = beats(v[e], best[e]);
          best[e] = wins ? v[e] : best[e];
          place[e] = wins ? static_cast<uint32_t>(k) : place[e];
        }
      }
      pack_unit<T>(best, unit, result);
      BORA_UNROLL
      for (int e = 0; e < U; ++e) places.set(unit * U + e, place[e]);
    }
    const int64_t at = number * channels + pack_number * V;
    store_bits(y + at, result);
    places.store(winner + at);
  }
};

template <class T>
struct MaxPool2Gradient {
  static constexpr int V = kPack<T>, U = kUnit<T>;
  Grid32 out;
  int64_t channels;
  const T* dy;
  const uint8_t* winner;
  T* dx;
  bool add;

  BORA_HD void operator()(const Cell32& i, uint32_t number, uint32_t pack_number) const {
    const uint32_t d = i.d / 2, h = i.h / 2, w = i.w / 2;
    const int64_t to = number * channels + pack_number * V;
    const bool inside = d < out.d.divisor && h < out.h.divisor && w < out.w.divisor;
    if (!inside && add) return;
    Bits128 g{}, before{}, result;
    Winners<V> winners;
    uint32_t place = 255;  // no window: no winner says so
    if (inside) {
      const int64_t from = out.number(i.n, d, h, w) * channels + pack_number * V;
      g = load_bits(dy + from);
      winners.load(winner + from);
      place = (i.d & 1) * 4 + (i.h & 1) * 2 + (i.w & 1);
    }
    if (add) before = load_bits(dx + to);
    BORA_UNROLL
    for (int unit = 0; unit < V / U; ++unit) {
      acc_t<T> sum[U], v[U];
      unpack_unit<T>(before, unit, sum);
      unpack_unit<T>(g, unit, v);
      BORA_UNROLL
      for (int e = 0; e < U; ++e)
        if (winners.get(unit * U + e) == place) sum[e] = add ? sum[e] + v[e] : v[e];
      pack_unit<T>(sum, unit, result);
    }
    store_bits(dx + to, result);
  }
};

/// LinearAxis with divisions by multiplication; extents below 2^14.
struct Axis32 {
  FastDivide by_out, by_in;  // 2 out, 2 in
  int32_t in, out;

  explicit Axis32(const LinearAxis& axis)
      : by_out(2 * axis.out),
        by_in(2 * axis.in),
        in(static_cast<int32_t>(axis.in)),
        out(static_cast<int32_t>(axis.out)) {}
  static bool fits(const LinearAxis& axis) { return axis.in < (1 << 14) && axis.out < (1 << 14); }

  template <class A>
  BORA_HD LinearAxis::Tap<A> at(int32_t o) const {
    const int32_t numerator = (2 * o + 1) * in - out;
    if (numerator <= 0) return {0, 0, A(0)};
    auto rest = static_cast<uint32_t>(numerator);
    const auto lo = static_cast<int32_t>(by_out.split(rest));
    if (rest == 0 || lo + 1 >= in) return {lo, lo, A(0)};
    return {lo, lo + 1, static_cast<A>(rest) / static_cast<A>(2 * out)};
  }
  template <class A>
  BORA_HD A weight(int32_t o, int32_t i) const {
    const auto tap = at<A>(o);
    return i == tap.lo ? A(1) - tap.t : i == tap.hi ? tap.t : A(0);
  }
  BORA_HD int32_t first(int32_t i) const {
    if (i == 0) return 0;
    const auto o =
        static_cast<int32_t>(by_in.quotient(static_cast<uint32_t>((2 * i - 1) * out))) - 1;
    return o < 0 ? 0 : o;
  }
  BORA_HD int32_t last(int32_t i) const {
    if (i == in - 1) return out;
    const auto o =
        static_cast<int32_t>(by_in.quotient(static_cast<uint32_t>((2 * i + 3) * out))) + 1;
    return o > out ? out : o;
  }
};

template <class T>
struct Trilinear {
  static constexpr int V = kPack<T>;
  using A = acc_t<T>;
  Axis32 d, h, w;
  Grid32 in;
  int64_t channels;
  const T* x;
  T* y;

  BORA_HD void operator()(const Cell32& o, uint32_t number, uint32_t pack_number) const {
    const auto td = d.at<A>(static_cast<int32_t>(o.d)), th = h.at<A>(static_cast<int32_t>(o.h)),
               tw = w.at<A>(static_cast<int32_t>(o.w));
    A sum[V] = {};
    BORA_UNROLL
    for (int i = 0; i < 8; ++i) {
      const uint32_t cell = in.number(o.n, static_cast<uint32_t>(i & 4 ? td.hi : td.lo),
                                      static_cast<uint32_t>(i & 2 ? th.hi : th.lo),
                                      static_cast<uint32_t>(i & 1 ? tw.hi : tw.lo));
      const A weight = (i & 4 ? td.t : A(1) - td.t) * (i & 2 ? th.t : A(1) - th.t) *
                       (i & 1 ? tw.t : A(1) - tw.t);
      A v[V];
      unpack<T>(load_bits(x + cell * channels + pack_number * V), v);
      BORA_UNROLL
      for (int j = 0; j < V; ++j) sum[j] = multiply_add(weight, v[j], sum[j]);
    }
    store_bits(y + number * channels + pack_number * V, pack<T>(sum));
  }
};

template <class T>
struct TrilinearGradient {
  static constexpr int V = kPack<T>;
  static constexpr int kTaps = 8;  // enough for targets of up to twice the extent, see fits_ratio
  using A = acc_t<T>;
  Axis32 d, h, w;
  Grid32 out;
  int64_t channels;
  const T* dy;
  T* dx;

  BORA_HD void operator()(const Cell32& i, uint32_t number, uint32_t pack_number) const {
    const auto id = static_cast<int32_t>(i.d), ih = static_cast<int32_t>(i.h),
               iw = static_cast<int32_t>(i.w);
    const int32_t first = w.first(iw), n = w.last(iw) - first;
    A along[kTaps], sum[V] = {};
    BORA_UNROLL
    for (int k = 0; k < kTaps; ++k) along[k] = k < n ? w.weight<A>(first + k, iw) : A(0);
    for (int32_t od = d.first(id); od < d.last(id); ++od) {
      const A wd = d.weight<A>(od, id);
      if (wd == A(0)) continue;
      for (int32_t oh = h.first(ih); oh < h.last(ih); ++oh) {
        const A wdh = wd * h.weight<A>(oh, ih);
        if (wdh == A(0)) continue;
        const T* const line = dy +
                              out.number(i.n, static_cast<uint32_t>(od), static_cast<uint32_t>(oh),
                                         static_cast<uint32_t>(first)) *
                                  channels +
                              pack_number * V;
        BORA_UNROLL
        for (int k = 0; k < kTaps; ++k) {
          const A weight = wdh * along[k];
          if (weight == A(0)) continue;  // a NaN that is not taken does no harm
          A v[V];
          unpack<T>(load_bits(line + k * channels), v);
          BORA_UNROLL
          for (int j = 0; j < V; ++j) sum[j] = multiply_add(weight, v[j], sum[j]);
        }
      }
    }
    store_bits(dx + number * channels + pack_number * V, pack<T>(sum));
  }
};

template <class T>
bool fits(const Volume& large, const Volume& small, const Tensor& a, const Tensor& b) {
  return large.c % kPack<T> == 0 && large.c > 0 && large.n > 0 && aligned(a.raw()) &&
         aligned(b.raw()) && Grid32::fits(large.n, large.size) &&
         Grid32::fits(small.n, small.size) && large.size.count() > 0 && small.size.count() > 0;
}

LinearAxis axis(const Volume& in, const Volume& out, int i) { return {in.size[i], out.size[i]}; }

bool fits_ratio(const Volume& in, const Volume& out) {
  for (int i = 0; i < 3; ++i)
    if (out.size[i] > 2 * in.size[i] || !Axis32::fits(axis(in, out, i))) return false;
  return true;
}

}  // namespace

bool max_pool2_forward(Stream stream, const Tensor& x, Tensor& y, Tensor& winner) {
  constexpr const char* kOp = "max_pool3d";
  const Volume in = volume_of(x, kOp), out = volume_of(y, kOp);
  bool done = false;
  dispatch_device_float(x.dtype(), kOp, [&]<class T>() {
    if (!fits<T>(in, out, x, y) || !winners_aligned<kPack<T>>(winner.data<uint8_t>())) return;
    done = launch_packs<T>(
        kOp, stream, out,
        MaxPool2<T>{Grid32(in.size), in.c, x.data<T>(), y.data<T>(), winner.data<uint8_t>()});
  });
  return done;
}

bool max_pool2_backward(Stream stream, const Tensor& dy, const Tensor& winner, GradientMode mode,
                        Tensor& dx) {
  constexpr const char* kOp = "max_pool3d backward";
  const Volume in = volume_of(dx, kOp), out = volume_of(dy, kOp);
  bool done = false;
  dispatch_device_float(dx.dtype(), kOp, [&]<class T>() {
    if (!fits<T>(in, out, dx, dy) || !winners_aligned<kPack<T>>(winner.data<uint8_t>())) return;
    done = launch_packs<T>(
        kOp, stream, in,
        MaxPool2Gradient<T>{Grid32(out.size), in.c, dy.data<T>(), winner.data<uint8_t>(),
                            dx.data<T>(), mode == GradientMode::add});
  });
  return done;
}

bool upsample_trilinear_forward(Stream stream, const Tensor& x, Tensor& y) {
  constexpr const char* kOp = "upsample_trilinear";
  const Volume in = volume_of(x, kOp), out = volume_of(y, kOp);
  bool done = false;
  dispatch_device_float(x.dtype(), kOp, [&]<class T>() {
    if (!fits<T>(out, in, y, x) || !fits_ratio(in, out)) return;
    done = launch_packs<T>(
        kOp, stream, out,
        Trilinear<T>{Axis32(axis(in, out, 0)), Axis32(axis(in, out, 1)), Axis32(axis(in, out, 2)),
                     Grid32(in.size), in.c, x.data<T>(), y.data<T>()});
  });
  return done;
}

bool upsample_trilinear_backward(Stream stream, const Tensor& dy, Tensor& dx) {
  constexpr const char* kOp = "upsample_trilinear backward";
  const Volume in = volume_of(dx, kOp), out = volume_of(dy, kOp);
  bool done = false;
  dispatch_device_float(dx.dtype(), kOp, [&]<class T>() {
    if (!fits<T>(out, in, dy, dx) || !fits_ratio(in, out)) return;
    done = launch_packs<T>(kOp, stream, in,
                           TrilinearGradient<T>{Axis32(axis(in, out, 0)), Axis32(axis(in, out, 1)),
                                                Axis32(axis(in, out, 2)), Grid32(out.size), in.c,
                                                dy.data<T>(), dx.data<T>()});
  });
  return done;
}

}  // namespace bora::kernels::cuda
