// SPDX-License-Identifier: Apache-2.0
// Two bodies for the trilinear kernels.  Cell by cell: CUDA where kernels/cuda/volume_packs.hpp
// does not fit, and f64 on the CPU (so that gradient checks test the GPU's formula).  Line by line:
// the CPU's other types; lines of W * C contiguous numbers are blended first, so that vectors are
// long for any number of channels.
#include "kernels/resample.hpp"

#include <algorithm>
#include <vector>

#include "core/convert.hpp"
#include "kernels/cuda/volume_packs.hpp"
#include "kernels/for_each.hpp"
#include "kernels/volume.hpp"

namespace bora::kernels {
namespace {

struct Axes {
  LinearAxis d, h, w;
  BORA_HD Dims3 in() const { return {d.in, h.in, w.in}; }
  BORA_HD Dims3 out() const { return {d.out, h.out, w.out}; }
};

template <class T>
struct TrilinearCell {
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  using A = acc_t<T>;
  Axes axes;
  int64_t channels;
  const T* x;
  T* y;
  struct Cell {
    const T* from[8];
    A weight[8];
    T* to;
  };
  BORA_HD Cell cell(const VolumeIndex& v) const {
    const auto d = axes.d.template at<A>(v.d), h = axes.h.template at<A>(v.h),
               w = axes.w.template at<A>(v.w);
    const Dims3 in = axes.in(), out = axes.out();
    Cell cell;
    for (int i = 0; i < 8; ++i) {
      cell.from[i] =
          x + cell_number(v.n, i & 4 ? d.hi : d.lo, i & 2 ? h.hi : h.lo, i & 1 ? w.hi : w.lo, in) *
                  channels;
      cell.weight[i] =
          (i & 4 ? d.t : A(1) - d.t) * (i & 2 ? h.t : A(1) - h.t) * (i & 1 ? w.t : A(1) - w.t);
    }
    cell.to = y + cell_number(v.n, v.d, v.h, v.w, out) * channels;
    return cell;
  }
  BORA_HD void operator()(const Cell& cell, int64_t c) const {
    A sum = A(0);
    for (int i = 0; i < 8; ++i) sum += cell.weight[i] * load(cell.from[i][c]);
    cell.to[c] = static_cast<T>(sum);
  }
};

template <class T>
struct TrilinearGradientCell {
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  using A = acc_t<T>;
  Axes axes;
  int64_t channels;
  const T* dy;
  T* dx;
  BORA_HD VolumeIndex cell(const VolumeIndex& v) const { return v; }
  BORA_HD void operator()(const VolumeIndex& v, int64_t c) const {
    const Dims3 in = axes.in(), out = axes.out();
    A sum = A(0);
    for (int64_t d = axes.d.first(v.d); d < axes.d.last(v.d); ++d) {
      const A wd = axes.d.template weight<A>(d, v.d);
      if (wd == A(0)) continue;
      for (int64_t h = axes.h.first(v.h); h < axes.h.last(v.h); ++h) {
        const A wdh = wd * axes.h.template weight<A>(h, v.h);
        if (wdh == A(0)) continue;
        for (int64_t w = axes.w.first(v.w); w < axes.w.last(v.w); ++w) {
          const A weight = wdh * axes.w.template weight<A>(w, v.w);
          if (weight != A(0))
            sum += weight * load(dy[cell_number(v.n, d, h, w, out) * channels + c]);
        }
      }
    }
    dx[cell_number(v.n, v.d, v.h, v.w, in) * channels + c] = static_cast<T>(sum);
  }
};

// One axis as tables: what each target takes (forward), and what each source gives (backward).
struct AxisTable {
  std::vector<LinearAxis::Tap<float>> taps;  // by target
  std::vector<int64_t> first, n, at;  // by source: targets first .. first + n, weights[at ..]
  std::vector<float> weights;

  explicit AxisTable(LinearAxis axis) {
    for (int64_t o = 0; o < axis.out; ++o) taps.push_back(axis.at<float>(o));
    for (int64_t i = 0; i < axis.in; ++i) {
      int64_t begin = axis.first(i), end = axis.last(i);
      while (begin < end && axis.weight<float>(begin, i) == 0.0f) ++begin;
      while (begin < end && axis.weight<float>(end - 1, i) == 0.0f) --end;
      first.push_back(begin);
      n.push_back(end - begin);
      at.push_back(static_cast<int64_t>(weights.size()));
      for (int64_t o = begin; o < end; ++o) weights.push_back(axis.weight<float>(o, i));
    }
  }
};

template <class T>
void trilinear_lines(const Axes& axes, int64_t n, int64_t channels, const T* x, T* y) {
  const AxisTable td(axes.d), th(axes.h), tw(axes.w);
  const int64_t in_line = axes.w.in * channels, out_line = axes.w.out * channels;
  const int64_t n_lines = n * axes.d.out * axes.h.out;
#pragma omp parallel if (n_lines * out_line > kThreadWorthy)
  {
    // Runs in float; the last four only where T is stored in 16 bits, as is `line`.
    const int64_t wide_in = is_narrow<T> ? in_line : 0, wide_out = is_narrow<T> ? out_line : 0;
    std::vector<float> buffers(static_cast<size_t>(in_line + 4 * wide_in + wide_out));
    float* const b = buffers.data();
    float* const wide = b + in_line;
    float* const line_buffer = wide + 4 * wide_in;
#pragma omp for schedule(static)
    for (int64_t line = 0; line < n_lines; ++line) {
      const int64_t oh = line % axes.h.out, od = line / axes.h.out % axes.d.out,
                    i = line / (axes.h.out * axes.d.out);
      const auto d = td.taps[static_cast<size_t>(od)], h = th.taps[static_cast<size_t>(oh)];
      const auto source = [&](int64_t sd, int64_t sh) {
        return x + ((i * axes.d.in + sd) * axes.h.in + sh) * in_line;
      };
      const float* const x00 = widen(source(d.lo, h.lo), in_line, wide);
      const float* const x01 = widen(source(d.lo, h.hi), in_line, wide + wide_in);
      const float* const x10 = widen(source(d.hi, h.lo), in_line, wide + 2 * wide_in);
      const float* const x11 = widen(source(d.hi, h.hi), in_line, wide + 3 * wide_in);
      const float w00 = (1 - d.t) * (1 - h.t), w01 = (1 - d.t) * h.t, w10 = d.t * (1 - h.t),
                  w11 = d.t * h.t;
#pragma omp simd
      for (int64_t j = 0; j < in_line; ++j)
        b[j] = (w00 * x00[j] + w01 * x01[j]) + (w10 * x10[j] + w11 * x11[j]);
      float* const out = wide_target(y + line * out_line, line_buffer);
      float* to = out;
      for (int64_t ow = 0; ow < axes.w.out; ++ow, to += channels) {
        const auto w = tw.taps[static_cast<size_t>(ow)];
        const float *lo = b + w.lo * channels, *hi = b + w.hi * channels;
        const float u = 1 - w.t, t = w.t;
#pragma omp simd
        for (int64_t c = 0; c < channels; ++c) to[c] = u * lo[c] + t * hi[c];
      }
      narrow(out, y + line * out_line, out_line);
    }
  }
}

template <class T>
void trilinear_gradient_lines(const Axes& axes, int64_t n, int64_t channels, const T* dy, T* dx) {
  const AxisTable td(axes.d), th(axes.h), tw(axes.w);
  const int64_t in_line = axes.w.in * channels, out_line = axes.w.out * channels;
  const int64_t n_lines = n * axes.d.in * axes.h.in;
#pragma omp parallel if (n_lines * in_line > kThreadWorthy)
  {
    std::vector<float> blend(static_cast<size_t>(out_line)), cell(static_cast<size_t>(channels));
    std::vector<float> wide(static_cast<size_t>(is_narrow<T> ? out_line : 0));
    float *b = blend.data(), *s = cell.data();
#pragma omp for schedule(static)
    for (int64_t line = 0; line < n_lines; ++line) {
      const int64_t ih = line % axes.h.in, id = line / axes.h.in % axes.d.in,
                    i = line / (axes.h.in * axes.d.in);
      const size_t kd = static_cast<size_t>(id), kh = static_cast<size_t>(ih);
      std::fill(blend.begin(), blend.end(), 0.0f);
      for (int64_t jd = 0; jd < td.n[kd]; ++jd) {
        const float wd = td.weights[static_cast<size_t>(td.at[kd] + jd)];
        for (int64_t jh = 0; jh < th.n[kh]; ++jh) {
          const float w = wd * th.weights[static_cast<size_t>(th.at[kh] + jh)];
          const float* const from =
              widen(dy + ((i * axes.d.out + td.first[kd] + jd) * axes.h.out + th.first[kh] + jh) *
                             out_line,
                    out_line, wide.data());
#pragma omp simd
          for (int64_t j = 0; j < out_line; ++j) b[j] += w * from[j];
        }
      }
      T* to = dx + line * in_line;
      for (int64_t iw = 0; iw < axes.w.in; ++iw, to += channels) {
        const size_t kw = static_cast<size_t>(iw);
        const float* from = b + tw.first[kw] * channels;
        const float* weight = tw.weights.data() + tw.at[kw];
        std::fill(cell.begin(), cell.end(), 0.0f);
        for (int64_t k = 0; k < tw.n[kw]; ++k, from += channels) {
          const float w = weight[k];
#pragma omp simd
          for (int64_t c = 0; c < channels; ++c) s[c] += w * from[c];
        }
#pragma omp simd
        for (int64_t c = 0; c < channels; ++c) to[c] = static_cast<T>(s[c]);
      }
    }
  }
}

template <class T>
struct Nearest {
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  Dims3 in, out;
  int64_t channels;
  const T* x;
  T* y;
  struct Cell {
    const T* from;
    T* to;
  };
  BORA_HD Cell cell(const VolumeIndex& v) const {
    return {x + cell_number(v.n, v.d * in.d / out.d, v.h * in.h / out.h, v.w * in.w / out.w, in) *
                    channels,
            y + cell_number(v.n, v.d, v.h, v.w, out) * channels};
  }
  BORA_HD void operator()(const Cell& cell, int64_t c) const { cell.to[c] = cell.from[c]; }
};

template <class T>
struct NearestGradient {
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  Dims3 in, out;
  int64_t channels;
  const T* dy;
  T* dx;
  // Targets o with floor(o in / out) == i are ceil(i out / in) .. ceil((i + 1) out / in).
  BORA_HD static int64_t begin(int64_t i, int64_t n_in, int64_t n_out) {
    return (i * n_out + n_in - 1) / n_in;
  }
  BORA_HD VolumeIndex cell(const VolumeIndex& v) const { return v; }
  BORA_HD void operator()(const VolumeIndex& v, int64_t c) const {
    acc_t<T> sum(0);
    for (int64_t d = begin(v.d, in.d, out.d); d < begin(v.d + 1, in.d, out.d); ++d)
      for (int64_t h = begin(v.h, in.h, out.h); h < begin(v.h + 1, in.h, out.h); ++h)
        for (int64_t w = begin(v.w, in.w, out.w); w < begin(v.w + 1, in.w, out.w); ++w)
          sum += load(dy[cell_number(v.n, d, h, w, out) * channels + c]);
    dx[cell_number(v.n, v.d, v.h, v.w, in) * channels + c] = static_cast<T>(sum);
  }
};

struct Call {
  Volume in, out;
  Axes axes() const {
    return {{in.size.d, out.size.d}, {in.size.h, out.size.h}, {in.size.w, out.size.w}};
  }
};

// `small` has the source's extents, `large` the target's (which may be fewer).
Call check(const Tensor& small, const Tensor& large, const char* what) {
  const Volume in = volume_of(small, what), out = volume_of(large, what);
  check_tensor(large, {in.n, out.size.d, out.size.h, out.size.w, in.c}, small.dtype(),
               small.device(), what);
  for (int i = 0; i < 3; ++i)
    BORA_CHECK(in.size[i] >= 1 && out.size[i] >= 1, what, ": from ", in.size, " to ", out.size,
               " cells; wanted at least one along each axis");
  return {in, out};
}

}  // namespace

void upsample_trilinear_forward(Stream stream, const Tensor& x, Tensor& y) {
  const Call call = check(x, y, "upsample_trilinear");
  if (y.numel() == 0) return;
  if (stream.device.type != DeviceType::cpu) {
    bool done = false;
    BORA_IF_CUDA(done = cuda::upsample_trilinear_forward(stream, x, y));
    if (done) return;
  }
  dispatch_float(x.dtype(), "upsample_trilinear", [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) {
      if (stream.device.type == DeviceType::cpu)
        return trilinear_lines(call.axes(), call.in.n, call.in.c, x.data<T>(), y.data<T>());
    }
    for_each_cell(stream, call.out.n, call.out.size, call.out.c,
                  TrilinearCell<T>{call.axes(), call.in.c, x.data<T>(), y.data<T>()});
  });
}

void upsample_trilinear_backward(Stream stream, const Tensor& dy, Tensor& dx) {
  const Call call = check(dx, dy, "upsample_trilinear backward");
  if (dx.numel() == 0) return;
  if (stream.device.type != DeviceType::cpu) {
    bool done = false;
    BORA_IF_CUDA(done = cuda::upsample_trilinear_backward(stream, dy, dx));
    if (done) return;
  }
  dispatch_float(dx.dtype(), "upsample_trilinear backward", [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) {
      if (stream.device.type == DeviceType::cpu)
        return trilinear_gradient_lines(call.axes(), call.in.n, call.in.c, dy.data<T>(),
                                        dx.data<T>());
    }
    for_each_cell(stream, call.in.n, call.in.size, call.in.c,
                  TrilinearGradientCell<T>{call.axes(), call.in.c, dy.data<T>(), dx.data<T>()});
  });
}

void upsample_nearest_forward(Stream stream, const Tensor& x, Tensor& y) {
  const Call call = check(x, y, "upsample_nearest");
  dispatch_float(x.dtype(), "upsample_nearest", [&]<class T>() {
    for_each_cell(stream, call.out.n, call.out.size, call.out.c,
                  Nearest<T>{call.in.size, call.out.size, call.in.c, x.data<T>(), y.data<T>()});
  });
}

void upsample_nearest_backward(Stream stream, const Tensor& dy, Tensor& dx) {
  const Call call = check(dx, dy, "upsample_nearest backward");
  dispatch_float(dx.dtype(), "upsample_nearest backward", [&]<class T>() {
    for_each_cell(
        stream, call.in.n, call.in.size, call.in.c,
        NearestGradient<T>{call.in.size, call.out.size, call.in.c, dy.data<T>(), dx.data<T>()});
  });
}

}  // namespace bora::kernels
