// SPDX-License-Identifier: Apache-2.0
// A 3-D field in a variable of a NetCDF-4 file.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "data/volume.hpp"
#include "data/volume_file.hpp"

namespace bora::data {

/// Opens a variable with three dimensions, or four of which one counts channels or times; further
/// dimensions have one cell.  `source.variable` empty: the file's only such variable (coordinate
/// variables do not count).
/// Axes: `source.order` by position; empty: by the dimensions' names (x, y, z in either case, the
/// usual longitude, latitude, height), or the attribute `axis` of their coordinate variables.
/// Values unpacked and missing ones found as NetcdfFile::read does.  Spacing: of coordinates that
/// are evenly spaced.
///
/// Throws Error naming the file and: the variables that there are, when none or several would do;
/// the dimensions, when they cannot be told apart; what was found and wanted else.
std::unique_ptr<VolumeFile> open_netcdf_volume(const VolumeSource& source);

/// The coordinate variables of a NetCDF-4 volume along x, y, z, each without centres where the file
/// has none; nullptr for a file of another format.  They live as long as `file`.
const std::array<Axis, 3>* coordinates_of(const VolumeFile& file);

/// Whether an HDF5 file was written as NetCDF-4 (its marks, or dimension scales).  Throws Error as
/// hdf5::File::open does.
bool is_netcdf4(const std::string& path);

}  // namespace bora::data
