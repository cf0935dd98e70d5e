// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv3d_reference.hpp"

#include <vector>

namespace bora::kernels::reference {
namespace {

/// Extents of a convolution from x (n, in, n_in) to y (n, out, n_out).
struct Extents {
  Conv3dAttributes a;
  int64_t n;
  Dims3 in, out, k;
  int64_t n_in, n_out, in_per_group, out_per_group;

  Extents(const Conv3dAttributes& attributes, const Shape& x, const Shape& w, const Shape& y)
      : a(attributes),
        n(x[0]),
        in{x[1], x[2], x[3]},
        out{y[1], y[2], y[3]},
        k{w[1], w[2], w[3]},
        n_in(x[4]),
        n_out(y[4]),
        in_per_group(x[4] / attributes.groups),
        out_per_group(y[4] / attributes.groups) {}

  /// Input coordinate that output coordinate `o` sees through tap `t`; may be out of bounds.
  int64_t seen(int axis, int64_t o, int64_t t) const {
    return o * a.stride[axis] - a.padding[axis] + t * a.dilation[axis];
  }
  int64_t x_at(int64_t s, int64_t z, int64_t y, int64_t x) const {
    return (((s * in.d + z) * in.h + y) * in.w + x) * n_in;
  }
  int64_t y_at(int64_t s, int64_t z, int64_t y, int64_t x) const {
    return (((s * out.d + z) * out.h + y) * out.w + x) * n_out;
  }
  int64_t w_at(int64_t o, int64_t kd, int64_t kh, int64_t kw) const {
    return (((o * k.d + kd) * k.h + kh) * k.w + kw) * in_per_group;
  }
};

bool inside(int64_t i, int64_t n) { return i >= 0 && i < n; }

/// Output coordinate that sees input coordinate `i` through tap `t`, or -1.
int64_t seen_from(const Extents& e, int axis, int64_t i, int64_t t) {
  const int64_t shifted = i + e.a.padding[axis] - t * e.a.dilation[axis];
  if (shifted < 0 || shifted % e.a.stride[axis] != 0) return -1;
  const int64_t o = shifted / e.a.stride[axis];
  return o < e.out[axis] ? o : -1;
}

}  // namespace

void conv3d_forward(const Conv3dAttributes& a, const Tensor& x, const Tensor& w, const Tensor& bias,
                    Tensor& y) {
  const Extents e(a, x.shape(), w.shape(), y.shape());
  dispatch_float(x.dtype(), "conv3d", [&]<class T>() {
    using A = acc_t<T>;
    const T* px = x.data<T>();
    const T* pw = w.data<T>();
    const T* pb = bias.defined() ? bias.data<T>() : nullptr;
    T* py = y.data<T>();
#pragma omp parallel for collapse(3) schedule(static)
    for (int64_t s = 0; s < e.n; ++s)
      for (int64_t z = 0; z < e.out.d; ++z)
        for (int64_t h = 0; h < e.out.h; ++h)
          for (int64_t c = 0; c < e.out.w; ++c)
            for (int64_t o = 0; o < e.n_out; ++o) {
              const int64_t first = o / e.out_per_group * e.in_per_group;
              A sum = pb ? static_cast<A>(pb[o]) : A(0);
              for (int64_t kd = 0; kd < e.k.d; ++kd)
                for (int64_t kh = 0; kh < e.k.h; ++kh)
                  for (int64_t kw = 0; kw < e.k.w; ++kw) {
                    const int64_t iz = e.seen(0, z, kd), ih = e.seen(1, h, kh),
                                  ic = e.seen(2, c, kw);
                    if (!inside(iz, e.in.d) || !inside(ih, e.in.h) || !inside(ic, e.in.w)) continue;
                    const T* xs = px + e.x_at(s, iz, ih, ic) + first;
                    const T* ws = pw + e.w_at(o, kd, kh, kw);
                    for (int64_t i = 0; i < e.in_per_group; ++i)
                      sum += static_cast<A>(xs[i]) * static_cast<A>(ws[i]);
                  }
              py[e.y_at(s, z, h, c) + o] = static_cast<T>(sum);
            }
  });
}

void conv3d_backward_data(const Conv3dAttributes& a, const Tensor& dy, const Tensor& w,
                          const Tensor& bias, Tensor& dx) {
  const Extents e(a, dx.shape(), w.shape(), dy.shape());
  dispatch_float(dy.dtype(), "conv3d", [&]<class T>() {
    using A = acc_t<T>;
    const T* pdy = dy.data<T>();
    const T* pw = w.data<T>();
    const T* pb = bias.defined() ? bias.data<T>() : nullptr;
    T* pdx = dx.data<T>();
#pragma omp parallel for collapse(3) schedule(static)
    for (int64_t s = 0; s < e.n; ++s)
      for (int64_t z = 0; z < e.in.d; ++z)
        for (int64_t h = 0; h < e.in.h; ++h) {
          std::vector<A> sum(static_cast<size_t>(e.n_in));
          for (int64_t c = 0; c < e.in.w; ++c) {
            for (int64_t i = 0; i < e.n_in; ++i)
              sum[static_cast<size_t>(i)] = pb ? static_cast<A>(pb[i]) : A(0);
            for (int64_t kd = 0; kd < e.k.d; ++kd)
              for (int64_t kh = 0; kh < e.k.h; ++kh)
                for (int64_t kw = 0; kw < e.k.w; ++kw) {
                  const int64_t oz = seen_from(e, 0, z, kd), oh = seen_from(e, 1, h, kh),
                                oc = seen_from(e, 2, c, kw);
                  if (oz < 0 || oh < 0 || oc < 0) continue;
                  const T* d = pdy + e.y_at(s, oz, oh, oc);
                  for (int64_t o = 0; o < e.n_out; ++o) {
                    A* out = sum.data() + o / e.out_per_group * e.in_per_group;
                    const T* ws = pw + e.w_at(o, kd, kh, kw);
                    const A g = static_cast<A>(d[o]);
                    for (int64_t i = 0; i < e.in_per_group; ++i)
                      out[i] += g * static_cast<A>(ws[i]);
                  }
                }
            T* row = pdx + e.x_at(s, z, h, c);
            for (int64_t i = 0; i < e.n_in; ++i)
              row[i] = static_cast<T>(sum[static_cast<size_t>(i)]);
          }
        }
  });
}

void conv3d_backward_weights(const Conv3dAttributes& a, const Tensor& x, const Tensor& dy,
                             GradientMode mode, Tensor& dw) {
  const Extents e(a, x.shape(), dw.shape(), dy.shape());
  dispatch_float(x.dtype(), "conv3d", [&]<class T>() {
    dispatch_float(dw.dtype(), "conv3d", [&]<class W>() {
      using A = acc_t<T>;
      const T* px = x.data<T>();
      const T* pdy = dy.data<T>();
      W* pdw = dw.data<W>();
#pragma omp parallel for collapse(2) schedule(static)
      for (int64_t o = 0; o < e.n_out; ++o)
        for (int64_t t = 0; t < e.k.count(); ++t) {
          const int64_t kd = t / (e.k.h * e.k.w), kh = t / e.k.w % e.k.h, kw = t % e.k.w;
          const int64_t first = o / e.out_per_group * e.in_per_group;
          std::vector<A> sum(static_cast<size_t>(e.in_per_group), A(0));
          for (int64_t s = 0; s < e.n; ++s)
            for (int64_t z = 0; z < e.out.d; ++z)
              for (int64_t h = 0; h < e.out.h; ++h)
                for (int64_t c = 0; c < e.out.w; ++c) {
                  const int64_t iz = e.seen(0, z, kd), ih = e.seen(1, h, kh), ic = e.seen(2, c, kw);
                  if (!inside(iz, e.in.d) || !inside(ih, e.in.h) || !inside(ic, e.in.w)) continue;
                  const A g = static_cast<A>(pdy[e.y_at(s, z, h, c) + o]);
                  const T* xs = px + e.x_at(s, iz, ih, ic) + first;
                  for (int64_t i = 0; i < e.in_per_group; ++i)
                    sum[static_cast<size_t>(i)] += g * static_cast<A>(xs[i]);
                }
          W* row = pdw + e.w_at(o, kd, kh, kw);
          for (int64_t i = 0; i < e.in_per_group; ++i) {
            using AW = acc_t<W>;
            const AW v = static_cast<AW>(sum[static_cast<size_t>(i)]);
            row[i] = static_cast<W>(mode == GradientMode::add ? static_cast<AW>(row[i]) + v : v);
          }
        }
    });
  });
}

}  // namespace bora::kernels::reference
