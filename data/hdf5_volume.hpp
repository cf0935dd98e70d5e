// SPDX-License-Identifier: Apache-2.0
// A 3-D field in a data set of an HDF5 file.
#pragma once

#include <memory>

#include "data/volume_file.hpp"

namespace bora::data {

/// Opens a data set of numbers with three axes, or four of which one counts channels, in C order.
/// `source.variable` may have several parts ("volumes/raw"); empty: the file's only such data set.
/// Axes: `source.order`; empty: dimension scales or labels that are called x, y, z (and the fourth
/// c or otherwise), else "zyx" or "czyx".
///
/// Spacing, from attributes of the data set or else of the file: `spacing` (three numbers, for the
/// axes x, y, z of the array in its own order, unit in `spacing_unit`), or `element_size_um` (the
/// same in micrometres, as ilastik and pytorch-3dunet write it).  `units` is the unit of the
/// values.
///
/// Throws Error naming the file and: the data sets that there are, when none or several would do;
/// what was found and wanted, for another number of axes, an axis without cells, or elements that
/// are no numbers.
std::unique_ptr<VolumeFile> open_hdf5_volume(const VolumeSource& source);

/// The same if this source was opened before and its file is as it was then, without the HDF5
/// library and its lock; else nothing.
std::unique_ptr<VolumeFile> open_known_hdf5_volume(const VolumeSource& source);

}  // namespace bora::data
