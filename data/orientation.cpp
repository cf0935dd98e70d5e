// SPDX-License-Identifier: Apache-2.0
#include "data/orientation.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "core/error.hpp"
#include "data/permute.hpp"

namespace bora::data {
namespace {

using Matrix = std::array<std::array<long double, 3>, 3>;

/// The transposed inverse (cofactors over the determinant).
Matrix inverse_transposed(const Matrix& m, long double& determinant) {
  Matrix c{};
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < 3; ++j) {
      const size_t i1 = (i + 1) % 3, i2 = (i + 2) % 3, j1 = (j + 1) % 3, j2 = (j + 2) % 3;
      c[i][j] = m[i1][j1] * m[i2][j2] - m[i1][j2] * m[i2][j1];
    }
  determinant = m[0][0] * c[0][0] + m[0][1] * c[0][1] + m[0][2] * c[0][2];
  for (auto& row : c)
    for (auto& v : row) v /= determinant;
  return c;
}

/// The orthogonal matrix next to the linear part with columns of length 1, by Newton's iteration
/// (Higham 1986).
Matrix polar_factor(const Affine& affine) {
  const std::array<double, 3> sizes = voxel_sizes(affine);
  Matrix m{};
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < 3; ++j) {
      BORA_CHECK(std::isfinite(affine[i][j]), "orientation: the affine ", text_of(affine),
                 " has a number that is not finite");
      m[i][j] = sizes[j] == 0 ? 0 : static_cast<long double>(affine[i][j]) / sizes[j];
    }
  for (int step = 0; step < 100; ++step) {
    long double determinant = 0;
    const Matrix inverse = inverse_transposed(m, determinant);
    // The columns have length 1: a determinant this small is that of a flat grid.
    BORA_CHECK(std::abs(determinant) > 1e-12L, "orientation: the affine ", text_of(affine),
               " is singular: its axes lie in a plane");
    long double change = 0;
    for (size_t i = 0; i < 3; ++i)
      for (size_t j = 0; j < 3; ++j) {
        const long double next = (m[i][j] + inverse[i][j]) / 2;
        change = std::max(change, std::abs(next - m[i][j]));
        m[i][j] = next;
      }
    if (change < 1e-18L) break;
  }
  return m;
}

Tensor flip(const Tensor& x, const std::array<bool, 3>& axes) {
  if (!axes[0] && !axes[1] && !axes[2]) return x;
  Tensor out = Tensor::empty(x.shape(), x.dtype());
  int64_t cell = size_of(x.dtype());
  for (int a = 3; a < x.rank(); ++a) cell *= x.size(a);
  const std::array<int64_t, 3> n{x.size(0), x.size(1), x.size(2)};
  const auto* from = static_cast<const std::byte*>(x.raw());
  auto* to = static_cast<std::byte*>(out.raw());
  for (int64_t i = 0; i < n[0]; ++i)
    for (int64_t j = 0; j < n[1]; ++j)
      for (int64_t k = 0; k < n[2]; ++k) {
        const int64_t fi = axes[0] ? n[0] - 1 - i : i, fj = axes[1] ? n[1] - 1 - j : j,
                      fk = axes[2] ? n[2] - 1 - k : k;
        std::memcpy(to, from + ((fi * n[1] + fj) * n[2] + fk) * cell, static_cast<size_t>(cell));
        to += cell;
      }
  return out;
}

void check_volume(const Tensor& values, const char* what) {
  BORA_CHECK(
      values.defined() && values.device().type == DeviceType::cpu && values.rank() >= 3, what,
      ": wants a CPU tensor (X, Y, Z, ...), got ",
      values.defined() ? bora::detail::join(values.shape()) : std::string("an undefined one"));
}

}  // namespace

AxisDirections directions_of(const Affine& affine) {
  Matrix r = polar_factor(affine);
  // The axes with the largest parts choose first.
  std::array<long double, 3> largest{};
  for (size_t j = 0; j < 3; ++j)
    for (size_t i = 0; i < 3; ++i) largest[j] = std::max(largest[j], r[i][j] * r[i][j]);
  std::array<size_t, 3> turn{0, 1, 2};
  // Parts that differ by the rounding of f64 alone are equal, as in exact rotations by 45 degrees.
  std::stable_sort(turn.begin(), turn.end(),
                   [&](size_t a, size_t b) { return largest[a] > largest[b] + 1e-14L; });
  AxisDirections out;
  for (const size_t j : turn) {
    size_t best = 0;
    for (size_t i = 1; i < 3; ++i)
      if (std::abs(r[i][j]) > std::abs(r[best][j])) best = i;
    out.axis[j] = static_cast<int>(best);
    out.is_flipped[j] = r[best][j] < 0;
    r[best] = {0, 0, 0};
  }
  std::array<bool, 3> seen{};
  for (const int a : out.axis) seen[static_cast<size_t>(a)] = true;
  BORA_CHECK(seen[0] && seen[1] && seen[2], "orientation: the affine ", text_of(affine),
             " gives two axes one direction");
  return out;
}

std::string orientation_of(const Affine& affine) {
  const AxisDirections directions = directions_of(affine);
  std::string out;
  for (size_t j = 0; j < 3; ++j)
    out += (directions.is_flipped[j] ? "LPI" : "RAS")[directions.axis[j]];
  return out;
}

std::array<double, 3> voxel_sizes(const Affine& affine) {
  std::array<double, 3> out{};
  for (size_t j = 0; j < 3; ++j)
    out[j] = std::sqrt(affine[0][j] * affine[0][j] + affine[1][j] * affine[1][j] +
                       affine[2][j] * affine[2][j]);
  return out;
}

std::string text_of(const Affine& affine) {
  std::string out = "[";
  for (size_t i = 0; i < 3; ++i) {
    if (i > 0) out += "; ";
    for (size_t j = 0; j < 4; ++j) out += bora::detail::join(j > 0 ? " " : "", affine[i][j]);
  }
  return out + "]";
}

double corner_distance(const Affine& a, const Affine& b, const Dims3& grid) {
  double furthest = 0;
  for (int corner = 0; corner < 8; ++corner) {
    double squares = 0;
    for (size_t i = 0; i < 3; ++i) {
      double d = a[i][3] - b[i][3];
      for (size_t j = 0; j < 3; ++j)
        if ((corner >> j & 1) != 0)
          d += (a[i][j] - b[i][j]) *
               static_cast<double>(std::max(grid[static_cast<int>(j)] - 1, int64_t{0}));
      squares += d * d;
    }
    if (std::isnan(squares)) return squares;
    furthest = std::max(furthest, std::sqrt(squares));
  }
  return furthest;
}

Reoriented to_ras(const Tensor& values, const Affine& affine) {
  check_volume(values, "to_ras");
  const AxisDirections directions = directions_of(affine);
  std::vector<int> order(static_cast<size_t>(values.rank()));
  std::iota(order.begin(), order.end(), 0);
  Affine to{};
  for (size_t i = 0; i < 3; ++i) to[i][3] = affine[i][3];
  for (size_t j = 0; j < 3; ++j) {
    const auto target = static_cast<size_t>(directions.axis[j]);
    order[target] = static_cast<int>(j);
    const double sign = directions.is_flipped[j] ? -1 : 1;
    const auto last = static_cast<double>(values.size(static_cast<int>(j)) - 1);
    for (size_t i = 0; i < 3; ++i) {
      to[i][target] = sign * affine[i][j];
      if (directions.is_flipped[j]) to[i][3] += affine[i][j] * last;
    }
  }
  return {permute(flip(values, directions.is_flipped), order), to};
}

}  // namespace bora::data
