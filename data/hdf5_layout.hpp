// SPDX-License-Identifier: Apache-2.0
// How a data set of an HDF5 file is stored, in words: for VolumeInfo.
#pragma once

#include <string>

#include "data/hdf5.hpp"
#include "data/volume_axes.hpp"

namespace bora::data {

/// "i16", "f32, big-endian".
std::string stored_type_of(const hdf5::Dataset& dataset);
/// "none", "deflate 4, shuffle", with the library's name of a filter that we do not know.
std::string codec_of(const hdf5::Dataset& dataset);
/// Fills in source, grid, channels, stored_type, chunk, codec and the two sizes.
void describe_storage(const hdf5::Dataset& dataset, const VolumeAxes& axes, VolumeInfo& info);

}  // namespace bora::data
