// SPDX-License-Identifier: Apache-2.0
// Chunks and patches: how much a chunked file makes its reader read.
#pragma once

#include <cstdint>
#include <string>

#include "core/shape.hpp"
#include "data/volume_file.hpp"

namespace bora::data {

/// Cells of the chunks that hold a part of a patch, over the cells of the patch: the mean over all
/// places of the patch in the grid.  1 at best.  A patch larger than the grid is cut to it; chunks
/// at the grid's end count whole, as they are stored.  Throws Error for extents below 1.
double read_amplification(const Dims3& grid, const Dims3& chunk, const Dims3& patch);
/// Of a file: 1 where nothing has to be unpacked, the whole of a compressed stream (.nii.gz).  A
/// patch extent of 0 is the grid's.
double read_amplification(const VolumeInfo& info, const Dims3& patch);

/// A chunk for patches of a shape: half of it along every axis, halved further along the longest
/// axis while it takes more than about `chunk_bytes`, at least 8 cells, at most the grid.  Smaller
/// chunks read less around a patch, but compress worse and cost more calls; docs/data/speed.md has
/// what was measured.
Dims3 chunk_for_patch(const Dims3& grid, const Dims3& patch, int64_t cell_bytes,
                      int64_t chunk_bytes = int64_t{1} << 20);

/// Above this amplification a warning is worth its line: a chunk as large as the patch has 8 in the
/// middle of a large grid.
inline constexpr double kMuchAmplification = 8.0;
/// The warning for patches of such a file, naming it and what helps (settings of `table`: "data" or
/// "volumes"); empty up to kMuchAmplification.
std::string amplification_warning(const VolumeInfo& info, const Dims3& patch,
                                  const std::string& table);

}  // namespace bora::data
