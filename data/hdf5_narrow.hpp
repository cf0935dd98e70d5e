// SPDX-License-Identifier: Apache-2.0
// f64 read as f32 without the HDF5 library, with its bits.  For data/hdf5*.cpp only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bora::data::hdf5::detail {

/// `n` values, f64 of this machine's byte order, to f32 as the library converts: to nearest, and
/// beyond the range of f32 infinite.  A Conversion::apply (hdf5_decode.hpp): always true.  The
/// library rounds the other byte order otherwise, so that is left to it.
bool narrow_run(const std::byte* from, void* to, int64_t n);

}  // namespace bora::data::hdf5::detail
