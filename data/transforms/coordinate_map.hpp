// SPDX-License-Identifier: Apache-2.0
// CoordinateMap: where in its source each cell of a rotated, zoomed and warped patch comes from.
#pragma once

#include <array>
#include <vector>

#include "core/shape.hpp"
#include "data/transforms/transforms.hpp"

namespace bora::data {

using Point = std::array<double, 3>;
using Matrix3 = std::array<std::array<double, 3>, 3>;

/// From steps in the patch to steps in the source, in cells: S^-1 R^T S / zoom with R = Rz Ry Rx
/// and S the cell's sizes.  Axes on which the patch has one cell take no part.
Matrix3 source_matrix(const Geometry& geometry, const Dims3& patch);

/// Cell x of the patch shows the source's point c_source + M (x + u(x) - c_patch), c the centres of
/// the boxes: u is the elastic warp, a cubic B-spline whose coefficients, uniform in [-a, a], lie h
/// cells apart.  A derivative of u along an axis is at most 2 a / h in size, so a row of the
/// Jacobian of u sums to at most 6 a / h < 1: x + u(x) is one to one and nothing folds.
/// Source of the warp: Rueckert et al., IEEE Transactions on Medical Imaging 18, 1999.
class CoordinateMap {
 public:
  /// Throws Error unless geometry.elastic < geometry.elastic_spacing / 6, zoom > 0 and both boxes
  /// have cells.
  CoordinateMap(const Geometry& geometry, const Dims3& patch, const Dims3& source);

  /// The source's points of the cells (x, y, 0 .. Z-1): Z numbers each.
  void line(int64_t x, int64_t y, float* sx, float* sy, float* sz) const;
  /// The same for one point, not only of cells, in f64.
  Point source_of(const Point& cell) const;
  /// The inverse of source_of: where in the patch a point of the source is seen.  For points that
  /// lie in the patch or near it.
  Point patch_of(const Point& point) const;

 private:
  Point warp_of(const Point& cell) const;

  Dims3 patch_, n_coefficients_;
  Point patch_centre_{}, source_centre_{};
  Matrix3 matrix_{}, inverse_{};
  bool is_warped_ = false;
  double spacing_ = 1;
  std::vector<float> coefficients_;  // (axis, gx, gy, gz)
  std::vector<float> basis_;         // (4, Z): the splines' values along z
};

}  // namespace bora::data
