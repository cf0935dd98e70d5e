// SPDX-License-Identifier: Apache-2.0
// Regions: the parts of a case that an evaluation reports.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "core/tensor.hpp"

namespace bora::unet3d {

/// Whole-domain scores flatter any model: most of the block is undisturbed flow.  So there are
/// three.
inline constexpr std::array<const char*, 3> kRegionNames{"all", "z<=20m", "built-up"};
inline constexpr double kLowHeight = 20.0;  ///< metres above ground

/// Masks (X, Y, Z) u8 in the order of kRegionNames, all within `open` (X, Y, Z) u8 (open and valid
/// cells): all of it; cells whose centre is at most 20 m high; cells in the bounding box of the
/// buildings, from the ground to the highest roof.  building (X, Y, Z) u8: 1 = a building cell of
/// the file (no padding).  z: heights of the cell centres in metres, Z of them; throws Error if
/// their number differs.  Without a building the last region is empty.
std::array<Tensor, 3> region_masks(const Tensor& open, const Tensor& building,
                                   const std::vector<double>& z);

}  // namespace bora::unet3d
