// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/coordinate_map.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "core/error.hpp"

namespace bora::data {
namespace {

constexpr size_t kAxes = 3, kTaps = 4;

/// The four cubic B-splines that are not 0 at t in [0, 1) between two grid points.
std::array<double, kTaps> spline_basis(double t) {
  const double s = 1 - t;
  return {s * s * s / 6, (3 * t * t * t - 6 * t * t + 4) / 6, (3 * s * s * s - 6 * s * s + 4) / 6,
          t * t * t / 6};
}

Matrix3 product(const Matrix3& a, const Matrix3& b) {
  Matrix3 c{};
  for (size_t i = 0; i < kAxes; ++i)
    for (size_t j = 0; j < kAxes; ++j)
      for (size_t k = 0; k < kAxes; ++k) c[i][j] += a[i][k] * b[k][j];
  return c;
}

Matrix3 inverse_of(const Matrix3& m) {
  const auto minor = [&](size_t i, size_t j) {
    const size_t a = (i + 1) % 3, b = (i + 2) % 3, c = (j + 1) % 3, d = (j + 2) % 3;
    return m[a][c] * m[b][d] - m[a][d] * m[b][c];
  };
  const double determinant = m[0][0] * minor(0, 0) + m[0][1] * minor(0, 1) + m[0][2] * minor(0, 2);
  Matrix3 out{};
  for (size_t i = 0; i < kAxes; ++i)
    for (size_t j = 0; j < kAxes; ++j) out[i][j] = minor(j, i) / determinant;
  return out;
}

Point times(const Matrix3& m, const Point& p) {
  Point out{};
  for (size_t i = 0; i < kAxes; ++i) out[i] = m[i][0] * p[0] + m[i][1] * p[1] + m[i][2] * p[2];
  return out;
}

int64_t coefficients_along(int64_t cells, double spacing) {
  return static_cast<int64_t>(static_cast<double>(cells - 1) / spacing) + 4;
}

/// The grid interval of a coordinate, and where in it.  Outside the grid the last one goes on.
std::pair<int64_t, double> interval_of(double x, double spacing, int64_t n_coefficients) {
  const double g = x / spacing;
  const int64_t i = std::clamp<int64_t>(static_cast<int64_t>(std::floor(g)), 0, n_coefficients - 4);
  return {i, std::clamp(g - static_cast<double>(i), 0.0, 1.0)};
}

}  // namespace

Matrix3 source_matrix(const Geometry& geometry, const Dims3& patch) {
  Matrix3 rotation{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
  for (int axis = 0; axis < 3; ++axis) {  // about x, then y, then z; transposed
    const int first = (axis + 1) % 3, second = (axis + 2) % 3;
    const double degrees = geometry.rotation_deg[static_cast<size_t>(axis)];
    if (degrees == 0 || patch[first] == 1 || patch[second] == 1) continue;
    const double angle = degrees * std::numbers::pi / 180;
    const auto a = static_cast<size_t>(first), b = static_cast<size_t>(second);
    Matrix3 one{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
    one[a][a] = one[b][b] = std::cos(angle);
    one[a][b] = std::sin(angle);
    one[b][a] = -std::sin(angle);
    rotation = product(rotation, one);
  }
  for (size_t i = 0; i < kAxes; ++i)
    for (size_t j = 0; j < kAxes; ++j) {
      if (i != j) rotation[i][j] *= geometry.spacing[j] / geometry.spacing[i];
      rotation[i][j] /= geometry.zoom;
    }
  return rotation;
}

CoordinateMap::CoordinateMap(const Geometry& g, const Dims3& patch, const Dims3& source)
    : patch_(patch), matrix_(source_matrix(g, patch)), is_warped_(g.elastic > 0) {
  BORA_CHECK(
      patch.d > 0 && patch.h > 0 && patch.w > 0 && source.d > 0 && source.h > 0 && source.w > 0,
      "CoordinateMap: a patch of ", patch, " out of ", source, ", wanted cells");
  BORA_CHECK(g.zoom > 0 && g.elastic >= 0 && 6 * g.elastic < static_cast<double>(g.elastic_spacing),
             "CoordinateMap: zoom ", g.zoom, ", displacements up to ", g.elastic,
             " cells of points ", g.elastic_spacing,
             " apart; wanted zoom > 0 and displacements below a sixth of that");
  inverse_ = inverse_of(matrix_);
  for (int axis = 0; axis < 3; ++axis) {
    const auto a = static_cast<size_t>(axis);
    patch_centre_[a] = 0.5 * static_cast<double>(patch[axis] - 1);
    source_centre_[a] = 0.5 * static_cast<double>(source[axis] - 1);
  }
  if (!is_warped_) return;
  spacing_ = static_cast<double>(g.elastic_spacing);
  n_coefficients_ = {coefficients_along(patch.d, spacing_), coefficients_along(patch.h, spacing_),
                     coefficients_along(patch.w, spacing_)};
  const auto n = static_cast<size_t>(n_coefficients_.count());
  coefficients_.resize(kAxes * n);
  fill_uniform(g.elastic_key, 0, -g.elastic, g.elastic, coefficients_);
  for (int axis = 0; axis < 3; ++axis)
    if (patch[axis] == 1)
      std::fill_n(coefficients_.begin() + static_cast<int64_t>(static_cast<size_t>(axis) * n), n,
                  0.0f);
  const auto nz = static_cast<size_t>(patch.w);
  basis_.resize(kTaps * nz);
  for (size_t z = 0; z < nz; ++z) {
    const auto basis =
        spline_basis(interval_of(static_cast<double>(z), spacing_, n_coefficients_.w).second);
    for (size_t k = 0; k < kTaps; ++k) basis_[k * nz + z] = static_cast<float>(basis[k]);
  }
}

void CoordinateMap::line(int64_t x, int64_t y, float* sx, float* sy, float* sz) const {
  const int64_t nz = patch_.w;
  const std::array<float*, kAxes> out{sx, sy, sz};
  const double dx = static_cast<double>(x) - patch_centre_[0];
  const double dy = static_cast<double>(y) - patch_centre_[1];
  for (size_t a = 0; a < kAxes; ++a) {
    const auto base = static_cast<float>(source_centre_[a] + matrix_[a][0] * dx +
                                         matrix_[a][1] * dy - matrix_[a][2] * patch_centre_[2]);
    const auto slope = static_cast<float>(matrix_[a][2]);
    float* s = out[a];
    for (int64_t z = 0; z < nz; ++z) s[z] = base + slope * static_cast<float>(z);
  }
  if (!is_warped_) return;
  // The spline along x and y first: what is left is a spline along z, of 3 x n_coefficients_.w.
  const auto [ix, tx] = interval_of(static_cast<double>(x), spacing_, n_coefficients_.d);
  const auto [iy, ty] = interval_of(static_cast<double>(y), spacing_, n_coefficients_.h);
  const auto bx = spline_basis(tx), by = spline_basis(ty);
  const int64_t gz = n_coefficients_.w;
  thread_local std::vector<float> along_z;
  along_z.assign(static_cast<size_t>(gz) * kAxes, 0.0f);
  for (size_t a = 0; a < kAxes; ++a)
    for (size_t i = 0; i < kTaps; ++i)
      for (size_t j = 0; j < kTaps; ++j) {
        const auto weight = static_cast<float>(bx[i] * by[j]);
        const int64_t row =
            (static_cast<int64_t>(a) * n_coefficients_.d + ix + static_cast<int64_t>(i)) *
                n_coefficients_.h +
            iy + static_cast<int64_t>(j);
        const float* c = coefficients_.data() + row * gz;
        float* sum = along_z.data() + static_cast<int64_t>(a) * gz;
        for (int64_t k = 0; k < gz; ++k) sum[k] += weight * c[k];
      }
  // Source displacements M u of the grid's coefficients, then the spline.
  for (size_t a = 0; a < kAxes; ++a) {
    const auto m0 = static_cast<float>(matrix_[a][0]), m1 = static_cast<float>(matrix_[a][1]);
    const auto m2 = static_cast<float>(matrix_[a][2]);
    const auto c = [&](int64_t k) {
      return m0 * along_z[static_cast<size_t>(k)] + m1 * along_z[static_cast<size_t>(gz + k)] +
             m2 * along_z[static_cast<size_t>(2 * gz + k)];
    };
    float* s = out[a];
    const float *b0 = basis_.data(), *b1 = b0 + nz, *b2 = b1 + nz, *b3 = b2 + nz;
    const auto step = static_cast<int64_t>(spacing_);
    for (int64_t begin = 0, k = 0; begin < nz; begin += step, ++k) {
      const int64_t end = std::min(nz, begin + step);
      const float c0 = c(k), c1 = c(k + 1), c2 = c(k + 2), c3 = c(k + 3);
      for (int64_t z = begin; z < end; ++z)
        s[z] += c0 * b0[z] + c1 * b1[z] + c2 * b2[z] + c3 * b3[z];
    }
  }
}

Point CoordinateMap::warp_of(const Point& cell) const {
  Point u{};
  if (!is_warped_) return u;
  std::array<std::pair<int64_t, std::array<double, kTaps>>, kAxes> at;
  for (int axis = 0; axis < 3; ++axis) {
    const auto a = static_cast<size_t>(axis);
    const auto [i, t] = interval_of(cell[a], spacing_, n_coefficients_[axis]);
    at[a] = {i, spline_basis(t)};
  }
  for (size_t a = 0; a < kAxes; ++a)
    for (size_t i = 0; i < kTaps; ++i)
      for (size_t j = 0; j < kTaps; ++j)
        for (size_t k = 0; k < kTaps; ++k) {
          const int64_t row = (static_cast<int64_t>(a) * n_coefficients_.d + at[0].first +
                               static_cast<int64_t>(i)) *
                                  n_coefficients_.h +
                              at[1].first + static_cast<int64_t>(j);
          const auto index = static_cast<size_t>(row * n_coefficients_.w + at[2].first) + k;
          u[a] += at[0].second[i] * at[1].second[j] * at[2].second[k] *
                  static_cast<double>(coefficients_[index]);
        }
  return u;
}

Point CoordinateMap::source_of(const Point& cell) const {
  const Point u = warp_of(cell);
  Point d{};
  for (size_t a = 0; a < kAxes; ++a) d[a] = cell[a] + u[a] - patch_centre_[a];
  Point out = times(matrix_, d);
  for (size_t a = 0; a < kAxes; ++a) out[a] += source_centre_[a];
  return out;
}

Point CoordinateMap::patch_of(const Point& point) const {
  Point d{};
  for (size_t a = 0; a < kAxes; ++a) d[a] = point[a] - source_centre_[a];
  Point wanted = times(inverse_, d);  // x + u(x)
  for (size_t a = 0; a < kAxes; ++a) wanted[a] += patch_centre_[a];
  // u shrinks distances by less than 1 (constructor): the fixed point of x = wanted - u(x).
  Point x = wanted;
  for (int step = 0; step < 1000; ++step) {
    const Point u = warp_of(x);
    double change = 0;
    for (size_t a = 0; a < kAxes; ++a) {
      const double next = wanted[a] - u[a];
      change = std::max(change, std::abs(next - x[a]));
      x[a] = next;
    }
    if (change < 1e-12) break;
  }
  return x;
}

}  // namespace bora::data
