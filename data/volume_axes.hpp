// SPDX-License-Identifier: Apache-2.0
// VolumeAxes: which axis of an array in a file is x, y, z and the channel; what the readers of
// every array format share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "data/volume_file.hpp"

namespace bora::data {

/// Places of the axes of a field in an array; c < 0: there is no channel axis.
struct VolumeAxes {
  int x = 0, y = 0, z = 0, c = -1;
  friend bool operator==(const VolumeAxes&, const VolumeAxes&) = default;
};

/// From letters, slowest axis first: a permutation of "xyz", or of "xyzc".  Empty: "zyx" for three
/// axes, "czyx" for four.  An array of three axes may be told an order with a "c", which is then
/// left out, so that one order serves an image with channels and its label without.  Throws
/// UsageError for letters that are no such order, Error for another number of axes; put the file
/// into the context.
VolumeAxes axes_from_order(const std::string& order, size_t rank);

/// From the names of dimensions: x, y and z in either case, or longitude, latitude, height and what
/// else people call them.  Of the others one may have more than one cell, and is the channel axis.
/// Nothing when x, y and z are not all there once.  Throws Error when two others have cells.
std::optional<VolumeAxes> axes_from_names(const std::vector<std::string>& names,
                                          const std::vector<int64_t>& extents);

/// The block of an array that holds a box of the field: begin and count along the array's axes, all
/// of the channel axis, and the first of any other.
struct ArrayBlock {
  std::vector<int64_t> begin, count;
};
ArrayBlock block_of_box(const VolumeAxes& axes, const std::vector<int64_t>& extents,
                        const Dims3& begin, const Dims3& count);

/// A block as it was read, turned to (X, Y, Z, C); axes that are none of these have one cell.
Tensor turn_to_volume(const Tensor& block, const VolumeAxes& axes);

/// Grid and channels of an array.
Dims3 grid_of_axes(const VolumeAxes& axes, const std::vector<int64_t>& extents);
int64_t channels_of_axes(const VolumeAxes& axes, const std::vector<int64_t>& extents);

/// "'file', variable 'name'" or "'file'", for messages.
std::string label_of(const VolumeSource& source);

/// Throws Error naming the file unless the box lies in the grid.
void check_box(const VolumeInfo& info, const Dims3& begin, const Dims3& count);

/// The values (X, Y, Z, C) of a box from `begin` on, f32, f64, u8, i32 or i64, as integers of
/// `type`.  Throws Error naming the file, the cell and the value for one that is missing (NaN), not
/// whole or out of the range of `type`.
Tensor whole_values(const Tensor& values, DType type, const VolumeInfo& info, const Dims3& begin);

}  // namespace bora::data
