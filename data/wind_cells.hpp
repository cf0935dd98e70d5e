// SPDX-License-Identifier: Apache-2.0
// What the values of a mask and of a wind field may be, for the look before training and for each
// sample alike.
#pragma once

#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "data/netcdf.hpp"
#include "data/wind_config.hpp"
#include "data/window.hpp"

namespace bora::data {

/// All of a grid but the levels that no sample has: what training may read of a case.
Window kept_window(const WindConfig& config, const Dims3& grid);

/// The cells of a window that lie in its grid, one range an axis.
std::vector<Range> ranges_of(const Window& window);

/// (X, Y, Z) u8 from a mask (X, Y, Z) f32, which lies at `window` of the file's grid: 1 where it
/// says open.  Throws Error naming file, variable, count and first place of values that are neither
/// of the two, which may be NaN.
Tensor open_cells(const Tensor& mask, const WindFilesConfig& files, const std::string& path,
                  const Window& window);

/// Judges and settles wind (X, Y, Z) f32 in place: missing values (NaN) become 0, and in `open`
/// (from open_cells) 2 where the cell is open; values are clipped.  Returns how many open cells
/// were clipped.  Throws Error naming file, variable and place for an infinite value or one beyond
/// the range of f32 (told by reading the file again), for one outside files.range, and for a
/// missing one in an open cell unless files.missing = mask.
int64_t settle_wind(Tensor& wind, Tensor& open, const WindConfig& config, const std::string& path,
                    const Window& window);

}  // namespace bora::data
