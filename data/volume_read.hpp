// SPDX-License-Identifier: Apache-2.0
// Boxes of images, labels and weights, read from their files and checked.
#pragma once

#include <functional>
#include <string>

#include "core/tensor.hpp"
#include "data/label_map.hpp"
#include "data/volume_cases.hpp"

namespace bora::data {

/// In a label tensor: the cell does not count.
inline constexpr uint8_t kIgnoredClass = 255;

/// Opens, reads the cells of a box of the file's grid, closes: (X, Y, Z, C) of `type`.  Throws
/// Error naming the file if it is not the one that `stamp` was taken of, and what VolumeFile::read
/// throws.
Tensor read_field(const VolumeSource& source, const FileStamp& stamp, const Box& box, DType type);

/// An image box as f32.  Throws Error naming file, value and cell for one that is infinite or
/// beyond the range of f32 (the file is read again for it), and for a NaN unless `missing` =
/// "mask".
Tensor checked_image(const Tensor& values, const VolumeSource& source, const Box& box,
                     const std::string& missing);
/// A label box (X, Y, Z, 1) u8 or i32 as classes (X, Y, Z) u8, kIgnoredClass among them.  Throws
/// Error naming file, value and cell for one that has no class.
Tensor checked_classes(const Tensor& values, const VolumeSource& source, const Box& box,
                       const LabelMap& labels);
/// Weights (X, Y, Z, 1) f32 as (X, Y, Z).  Throws Error naming file, value and cell for one that is
/// below 0, not finite or beyond the range of f32.
Tensor checked_weights(const Tensor& values, const VolumeSource& source, const Box& box);

/// Calls `use` for slabs of the box along x, in order, each of at most so many values (but one
/// layer); the same slabs everywhere.
inline constexpr int64_t kSlabValues = int64_t{1} << 24;  // 64 MiB of f32
void each_slab(const Box& box, int64_t channels, const std::function<void(const Box&)>& use,
               int64_t most_values = kSlabValues);

}  // namespace bora::data
