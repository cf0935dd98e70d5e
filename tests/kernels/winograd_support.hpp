// SPDX-License-Identifier: Apache-2.0
// How far a Winograd convolution in f32 may be from the truth.
#pragma once

#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/winograd.hpp"
#include "tests/kernels/conv_support.hpp"

namespace bora::test {

/// The absolute values of the matrices of F(m, 3) along one axis (winograd_axis.hpp).
struct WinogradMatrix {
  int64_t rows, columns;
  std::vector<double> values;

  static WinogradMatrix input(int64_t m) {  // |B^T|
    if (m == 2) return {4, 4, {1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 0, 1}};
    return {6, 6, {4, 0, 5, 0, 1, 0, 0, 4, 4, 1, 1, 0, 0, 4, 4, 1, 1, 0,
                   0, 2, 1, 2, 1, 0, 0, 2, 1, 2, 1, 0, 0, 4, 0, 5, 0, 1}};
  }
  static WinogradMatrix weight(int64_t m) {  // |G|
    if (m == 2) return {4, 3, {1, 0, 0, .5, .5, .5, .5, .5, .5, 0, 0, 1}};
    constexpr double a = 1.0 / 6, b = 1.0 / 24, c = 1.0 / 12;
    return {6, 3, {.25, 0, 0, a, a, a, a, a, a, b, c, a, b, c, a, 0, 0, 1}};
  }
  static WinogradMatrix output(int64_t m) {  // |A^T|
    if (m == 2) return {2, 4, {1, 1, 1, 0, 0, 1, 1, 1}};
    return {4, 6, {1, 1, 1, 1, 1, 0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 4, 4, 0, 0, 1, 1, 8, 8, 1}};
  }
  WinogradMatrix transposed() const {
    WinogradMatrix t{columns, rows, values};
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        t.values[static_cast<size_t>(j * rows + i)] = values[static_cast<size_t>(i * columns + j)];
    return t;
  }
};

/// One matrix an axis (D, H, W), applied to a box of numbers.
using WinogradMatrices = std::array<WinogradMatrix, 3>;
inline std::vector<double> apply_axes(const WinogradMatrices& m, std::vector<double> box) {
  int64_t before = 1, after = m[1].columns * m[2].columns;
  for (size_t axis = 0; axis < 3; ++axis) {
    const int64_t rows = m[axis].rows, columns = m[axis].columns;
    std::vector<double> out(static_cast<size_t>(before * rows * after));
    for (int64_t b = 0; b < before; ++b)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j)
          for (int64_t a = 0; a < after; ++a)
            out[static_cast<size_t>((b * rows + i) * after + a)] +=
                m[axis].values[static_cast<size_t>(i * columns + j)] *
                box[static_cast<size_t>((b * columns + j) * after + a)];
    box = std::move(out);
    before *= rows;
    if (axis < 2) after /= m[axis + 1].columns;
  }
  return box;
}

/// Sums of the magnitudes of all terms that Winograd's algorithm adds up for each element, in f64:
/// its transforms with the absolute values of matrices, inputs and weights.
struct WinogradMagnitudes {
  using Tile = kernels::cpu::WinogradTile;
  std::vector<double> y, dx, dw;
  int64_t tiles = 0;

  WinogradMagnitudes(const ConvCase& c, const ConvData& d, const Tile& tile, bool add)
      : tile_(tile) {
    for (size_t i = 0; i < 3; ++i) {
      input_[i] = WinogradMatrix::input(tile[i]);
      weight_[i] = WinogradMatrix::weight(tile[i]);
      output_[i] = WinogradMatrix::output(tile[i]);
    }
    const std::vector<double> x = magnitudes(d.x64), w = magnitudes(d.w64), dy = magnitudes(d.dy64);
    const int64_t pad = c.a.padding.d;
    y = convolve(c.x(), x, c.y(), w, pad);
    const std::vector<double> bias = c.bias ? values_of(d.b64) : std::vector<double>();
    for (size_t i = 0; c.bias && i < y.size(); ++i) y[i] += std::abs(bias[i % bias.size()]);
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
  static size_t at(int64_t row, int64_t width, int64_t column) {
    return static_cast<size_t>(row * width + column);
  }
  static std::vector<double> magnitudes(const Tensor& t) {
    std::vector<double> v = values_of(t);
    for (double& x : v) x = std::abs(x);
    return v;
  }
  int64_t points() const { return input_[0].rows * input_[1].rows * input_[2].rows; }
  /// Calls f(n, corner) for the tiles of a result of shape s.
  template <class F>
  void for_tiles(const Shape& s, F&& f) const {
    for (int64_t n = 0; n < s[0]; ++n)
      for (int64_t d = 0; d < s[1]; d += tile_[0])
        for (int64_t h = 0; h < s[2]; h += tile_[1])
          for (int64_t w = 0; w < s[3]; w += tile_[2]) f(n, Dims3{d, h, w});
  }
  /// A box of channel c from corner `from` on, zero outside.
  static std::vector<double> box(const Shape& s, const std::vector<double>& v, int64_t n,
                                 const Dims3& from, int64_t c, const Tile& extent) {
    std::vector<double> out;
    for (int64_t i = from.d; i < from.d + extent[0]; ++i)
      for (int64_t j = from.h; j < from.h + extent[1]; ++j)
        for (int64_t k = from.w; k < from.w + extent[2]; ++k) {
          const bool in = i >= 0 && i < s[1] && j >= 0 && j < s[2] && k >= 0 && k < s[3];
          out.push_back(in ? v[at(((n * s[1] + i) * s[2] + j) * s[3] + k, s[4], c)] : 0.0);
        }
    return out;
  }
  /// |B^T| of the patch of each channel: [channel][point].
  std::vector<double> transformed(const Shape& xs, const std::vector<double>& x, int64_t n,
                                  const Dims3& corner, int64_t pad) const {
    std::vector<double> v;
    for (int64_t i = 0; i < xs[4]; ++i) {
      const std::vector<double> one =
          apply_axes(input_, box(xs, x, n, {corner.d - pad, corner.h - pad, corner.w - pad}, i,
                                 {tile_[0] + 2, tile_[1] + 2, tile_[2] + 2}));
      v.insert(v.end(), one.begin(), one.end());
    }
    return v;
  }

  std::vector<double> convolve(const Shape& xs, const std::vector<double>& x, const Shape& ys,
                               const std::vector<double>& w, int64_t pad) const {
    const int64_t in = xs[4], out = ys[4], n_points = points();
    std::vector<double> u, result(static_cast<size_t>(ys.numel()));
    for (int64_t o = 0; o < out; ++o)
      for (int64_t i = 0; i < in; ++i) {
        std::vector<double> taps;
        for (int64_t k = 0; k < 27; ++k) taps.push_back(w[at(o * 27 + k, in, i)]);
        taps = apply_axes(weight_, std::move(taps));
        u.insert(u.end(), taps.begin(), taps.end());
      }
    for_tiles(ys, [&](int64_t n, const Dims3& corner) {
      const std::vector<double> v = transformed(xs, x, n, corner, pad);
      for (int64_t o = 0; o < out; ++o) {
        std::vector<double> m(static_cast<size_t>(n_points));
        for (int64_t i = 0; i < in; ++i)
          for (int64_t p = 0; p < n_points; ++p)
            m[static_cast<size_t>(p)] += v[at(i, n_points, p)] * u[at(o * in + i, n_points, p)];
        m = apply_axes(output_, std::move(m));
        size_t e = 0;
        for (int64_t a = corner.d; a < corner.d + tile_[0]; ++a)
          for (int64_t b = corner.h; b < corner.h + tile_[1]; ++b)
            for (int64_t c = corner.w; c < corner.w + tile_[2]; ++c, ++e)
              if (a < ys[1] && b < ys[2] && c < ys[3])
                result[at(((n * ys[1] + a) * ys[2] + b) * ys[3] + c, out, o)] = m[e];
      }
    });
    return result;
  }

  std::vector<double> gradient(const ConvCase& c, const std::vector<double>& x,
                               const std::vector<double>& dy, int64_t pad) {
    const int64_t n_points = points();
    const WinogradMatrices adjoint{output_[0].transposed(), output_[1].transposed(),
                                   output_[2].transposed()};
    std::vector<double> du(static_cast<size_t>(c.c_in * c.c_out * n_points));
    for_tiles(c.y(), [&](int64_t n, const Dims3& corner) {
      ++tiles;
      const std::vector<double> v = transformed(c.x(), x, n, corner, pad);
      for (int64_t o = 0; o < c.c_out; ++o) {
        const std::vector<double> z = apply_axes(adjoint, box(c.y(), dy, n, corner, o, tile_));
        for (int64_t i = 0; i < c.c_in; ++i)
          for (int64_t p = 0; p < n_points; ++p)
            du[at(o * c.c_in + i, n_points, p)] +=
                v[at(i, n_points, p)] * z[static_cast<size_t>(p)];
      }
    });
    std::vector<double> sums(static_cast<size_t>(c.w().numel()));
    for (int64_t o = 0; o < c.c_out; ++o)
      for (int64_t i = 0; i < c.c_in; ++i) {
        const auto first = du.begin() + static_cast<std::ptrdiff_t>((o * c.c_in + i) * n_points);
        const std::vector<double> taps =
            apply_axes({weight_[0].transposed(), weight_[1].transposed(), weight_[2].transposed()},
                       {first, first + static_cast<std::ptrdiff_t>(n_points)});
        for (int64_t k = 0; k < 27; ++k)
          sums[at(o * 27 + k, c.c_in, i)] = taps[static_cast<size_t>(k)];
      }
    return sums;
  }

  Tile tile_;
  WinogradMatrices input_, weight_, output_;
};

/// Empty, or what is wrong.  With u the unit roundoff of f32, each of the terms whose magnitudes
/// `magnitude` sums carries the roundings of the transforms, per axis at most 3 for B^T (M = 4: two
/// nested fused multiplications and an addition), 4 for G (its constant, two additions, a product)
/// and 3 for A^T: 30 in all; and those of the sum of `terms` products, which behave like a random
/// walk (see compare_elements): (30 + 4 sqrt(terms + 2)) u.  The weight gradient's transforms are
/// the adjoints, with as many.
inline std::string compare_winograd(const Tensor& got, const Tensor& want,
                                    const std::vector<double>& magnitude, double terms) {
  const std::vector<double> g = values_of(got), t = values_of(want);
  if (g.size() != t.size() || g.size() != magnitude.size()) return "sizes differ";
  const double bound = (30.0 + 4.0 * std::sqrt(terms + 2.0)) * unit_roundoff(DType::f32);
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
