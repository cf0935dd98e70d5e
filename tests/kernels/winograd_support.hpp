// SPDX-License-Identifier: Apache-2.0
// How far a Winograd convolution in f32 may be from the truth.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "tests/kernels/conv_support.hpp"

namespace bora::test {

/// Sums of the magnitudes of all terms that Winograd's algorithm adds up for each element, in f64:
/// its transforms with the absolute values of matrices, inputs and weights.
struct WinogradMagnitudes {
  std::vector<double> y, dx, dw;
  int64_t tiles = 0;

  WinogradMagnitudes(const ConvCase& c, const ConvData& d, bool add) {
    const std::vector<double> x = magnitudes(d.x64), w = magnitudes(d.w64), dy = magnitudes(d.dy64);
    const int64_t pad = c.a.padding.d;
    y = convolve(c.x(), x, c.y(), w, pad);
    for (size_t i = 0; c.bias && i < y.size(); ++i)
      y[i] += std::abs(values_of(d.b64)[i % static_cast<size_t>(c.c_out)]);
    std::vector<double> flipped(w.size());
    for (int64_t o = 0; o < c.c_out; ++o)
      for (int64_t k = 0; k < 27; ++k)
        for (int64_t i = 0; i < c.c_in; ++i)
          flipped[at(i * 27 + 26 - k, c.c_out, o)] = w[at(o * 27 + k, c.c_in, i)];
    dx = convolve(c.y(), dy, c.x(), flipped, 2 - pad);
    dw = gradient(c, x, dy, pad);
    for (double& v : dw) v += add ? 0.5 : 0.0;
  }

 private:
  // |B^T|, |G|, |A^T|.
  static constexpr double kB[4][4] = {{1, 0, 1, 0}, {0, 1, 1, 0}, {0, 1, 1, 0}, {0, 1, 0, 1}};
  static constexpr double kG[4][3] = {{1, 0, 0}, {.5, .5, .5}, {.5, .5, .5}, {0, 0, 1}};
  static constexpr double kA[2][4] = {{1, 1, 1, 0}, {0, 1, 1, 1}};

  static size_t at(int64_t row, int64_t width, int64_t column) {
    return static_cast<size_t>(row * width + column);
  }
  static std::vector<double> magnitudes(const Tensor& t) {
    std::vector<double> v = values_of(t);
    for (double& x : v) x = std::abs(x);
    return v;
  }
  /// in (N x N x N) to out (M x M x M), out = m in along each axis.
  template <int M, int N>
  static void apply(const double (&m)[M][N], const double* in, double* out) {
    double a[M * N * N] = {}, b[M * M * N] = {};
    for (int i = 0; i < M; ++i)
      for (int j = 0; j < N; ++j)
        for (int r = 0; r < N * N; ++r) a[i * N * N + r] += m[i][j] * in[j * N * N + r];
    for (int d = 0; d < M; ++d)
      for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j)
          for (int r = 0; r < N; ++r) b[(d * M + i) * N + r] += m[i][j] * a[(d * N + j) * N + r];
    for (int q = 0; q < M * M; ++q)
      for (int i = 0; i < M; ++i) {
        out[q * M + i] = 0;
        for (int j = 0; j < N; ++j) out[q * M + i] += m[i][j] * b[q * N + j];
      }
  }
  template <int M, int N>
  static void apply_transposed(const double (&m)[M][N], const double* in, double* out) {
    double t[N][M];
    for (int i = 0; i < M; ++i)
      for (int j = 0; j < N; ++j) t[j][i] = m[i][j];
    apply<N, M>(t, in, out);
  }
  /// Calls f(n, tile, corner) for the tiles of a result of shape s.
  template <class F>
  static void for_tiles(const Shape& s, F&& f) {
    for (int64_t n = 0; n < s[0]; ++n)
      for (int64_t d = 0; d < s[1]; d += 2)
        for (int64_t h = 0; h < s[2]; h += 2)
          for (int64_t w = 0; w < s[3]; w += 2) f(n, d, h, w);
  }
  /// A cube of `size` cells of channel c, corner (d, h, w), zero outside.
  static void cube(const Shape& s, const std::vector<double>& v, int64_t n, int64_t d, int64_t h,
                   int64_t w, int64_t c, int size, double* out) {
    for (int64_t i = d; i < d + size; ++i)
      for (int64_t j = h; j < h + size; ++j)
        for (int64_t k = w; k < w + size; ++k) {
          const bool in = i >= 0 && i < s[1] && j >= 0 && j < s[2] && k >= 0 && k < s[3];
          *out++ = in ? v[at(((n * s[1] + i) * s[2] + j) * s[3] + k, s[4], c)] : 0.0;
        }
  }

  static std::vector<double> convolve(const Shape& xs, const std::vector<double>& x,
                                      const Shape& ys, const std::vector<double>& w, int64_t pad) {
    const int64_t in = xs[4], out = ys[4];
    std::vector<double> u(static_cast<size_t>(in * out * 64)), y(static_cast<size_t>(ys.numel()));
    for (int64_t o = 0; o < out; ++o)
      for (int64_t i = 0; i < in; ++i) {
        double taps[27];
        for (int k = 0; k < 27; ++k) taps[k] = w[at(o * 27 + k, in, i)];
        apply(kG, taps, &u[at(o * in + i, 64, 0)]);
      }
    for_tiles(ys, [&](int64_t n, int64_t d, int64_t h, int64_t k) {
      std::vector<double> v(static_cast<size_t>(in * 64));
      for (int64_t i = 0; i < in; ++i) {
        double patch[64];
        cube(xs, x, n, d - pad, h - pad, k - pad, i, 4, patch);
        apply(kB, patch, &v[at(i, 64, 0)]);
      }
      for (int64_t o = 0; o < out; ++o) {
        double m[64] = {}, cells[8];
        for (int64_t i = 0; i < in; ++i)
          for (int p = 0; p < 64; ++p) m[p] += v[at(i, 64, p)] * u[at(o * in + i, 64, p)];
        apply(kA, m, cells);
        for (int64_t e = 0; e < 8; ++e) {
          const int64_t a = d + e / 4, b = h + e / 2 % 2, c = k + e % 2;
          if (a < ys[1] && b < ys[2] && c < ys[3])
            y[at(((n * ys[1] + a) * ys[2] + b) * ys[3] + c, out, o)] = cells[e];
        }
      }
    });
    return y;
  }

  std::vector<double> gradient(const ConvCase& c, const std::vector<double>& x,
                               const std::vector<double>& dy, int64_t pad) {
    std::vector<double> du(static_cast<size_t>(c.c_in * c.c_out * 64));
    for_tiles(c.y(), [&](int64_t n, int64_t d, int64_t h, int64_t k) {
      ++tiles;
      std::vector<double> v(static_cast<size_t>(c.c_in * 64));
      for (int64_t i = 0; i < c.c_in; ++i) {
        double patch[64];
        cube(c.x(), x, n, d - pad, h - pad, k - pad, i, 4, patch);
        apply(kB, patch, &v[at(i, 64, 0)]);
      }
      for (int64_t o = 0; o < c.c_out; ++o) {
        double cells[8], z[64];
        cube(c.y(), dy, n, d, h, k, o, 2, cells);
        apply_transposed(kA, cells, z);
        for (int64_t i = 0; i < c.c_in; ++i)
          for (int p = 0; p < 64; ++p) du[at(o * c.c_in + i, 64, p)] += v[at(i, 64, p)] * z[p];
      }
    });
    std::vector<double> sums(static_cast<size_t>(c.w().numel()));
    for (int64_t o = 0; o < c.c_out; ++o)
      for (int64_t i = 0; i < c.c_in; ++i) {
        double taps[27];
        apply_transposed(kG, &du[at(o * c.c_in + i, 64, 0)], taps);
        for (int k = 0; k < 27; ++k) sums[at(o * 27 + k, c.c_in, i)] = taps[k];
      }
    return sums;
  }
};

/// Empty, or what is wrong.  With u the unit roundoff of f32, each of the terms whose magnitudes
/// `magnitude` sums carries the roundings of the transforms: 3 additions for B^T, at most 6
/// operations that round for G (2 an axis; halving is exact), 6 for A^T; and of the sum of `terms`
/// products, which behave like a random walk (see compare_elements): 15 u + 4 sqrt(terms + 2) u.
/// The weight gradient has the same number (A: 3, B^T: 3, G^T: 6).
inline std::string compare_winograd(const Tensor& got, const Tensor& want,
                                    const std::vector<double>& magnitude, double terms) {
  const std::vector<double> g = values_of(got), t = values_of(want);
  if (g.size() != t.size() || g.size() != magnitude.size()) return "sizes differ";
  const double bound = (15.0 + 4.0 * std::sqrt(terms + 2.0)) * unit_roundoff(DType::f32);
  const double store = 1.01 * unit_roundoff(got.dtype());
  for (size_t i = 0; i < g.size(); ++i) {
    const double allowed =
        bound * magnitude[i] + store * std::abs(t[i]) + 2 * absolute_floor(got.dtype());
    if (!(std::abs(g[i] - t[i]) <= allowed))
      return "element " + std::to_string(i) + ": got " + std::to_string(g[i]) + ", truth " +
             std::to_string(t[i]) + ", allowed difference " + std::to_string(allowed);
  }
  return {};
}

}  // namespace bora::test
