// SPDX-License-Identifier: Apache-2.0
// Orientation: which way the axes of a volume look, how far two grids lie apart, and volumes with
// their axes to the right, the front and up.
#pragma once

#include <array>
#include <string>

#include "core/shape.hpp"
#include "core/tensor.hpp"
#include "data/volume_file.hpp"

namespace bora::data {

/// Of each axis of a volume (x, y, z): the axis of space that it follows most (0 right, 1 front, 2
/// up), and whether it runs the other way.
struct AxisDirections {
  std::array<int, 3> axis{0, 1, 2};
  std::array<bool, 3> is_flipped{false, false, false};
  friend bool operator==(const AxisDirections&, const AxisDirections&) = default;
};

/// From the rotation next to the affine (its polar factor, after the columns have been scaled to
/// length 1), the axis with the largest part first: as nibabel's io_orientation has it.  Throws
/// Error for an affine with a number that is not finite or that is singular.
AxisDirections directions_of(const Affine& affine);

/// The ends that the axes run to, as "RAS" or "LPI": Right or Left, Anterior or Posterior, Superior
/// or Inferior.
std::string orientation_of(const Affine& affine);

/// The length of a step along x, y, z, in the units of the affine.
std::array<double, 3> voxel_sizes(const Affine& affine);

/// The three rows, for messages: "[-1 0 0 90; 0 1 0 -126; 0 0 1 -72]".
std::string text_of(const Affine& affine);

/// How far two affines put the corners of a grid of so many cells apart, at most, in their units;
/// NaN where a number of them is.
double corner_distance(const Affine& a, const Affine& b, const Dims3& grid);

/// A volume (X, Y, Z, ...) on the CPU with its axes put next to right, front and up, by a change of
/// their order and by mirrors alone; and its affine.  Equal to nibabel's as_closest_canonical.
struct Reoriented {
  Tensor values;
  Affine affine;
};
Reoriented to_ras(const Tensor& values, const Affine& affine);

}  // namespace bora::data
