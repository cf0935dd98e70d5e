// SPDX-License-Identifier: Apache-2.0
// f64 read as f32 without the HDF5 library, with its bits.  For data/hdf5*.cpp only.
#pragma once

#include "core/tensor.hpp"
#include "data/hdf5.hpp"

namespace bora::data::hdf5::detail {

/// Whether a data set's elements are f64 of this machine's byte order: in the other one the library
/// rounds otherwise.  The caller holds the Lock.
bool is_native_double(const Dataset& dataset);

/// f64 to f32 as the library converts: beyond the range of f32 infinite.
Tensor narrowed(const Tensor& values);

}  // namespace bora::data::hdf5::detail
