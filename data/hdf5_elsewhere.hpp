// SPDX-License-Identifier: Apache-2.0
// Data sets whose values lie in other files: virtual ones, and those with external storage.  For
// data/hdf5*.cpp only.
#pragma once

#include "data/hdf5.hpp"

namespace bora::data::hdf5::detail {

/// Throws Error naming the other file where it is missing or holds less than the data set says: the
/// library would give fill values in their place, without a word.  Nothing for values in the own
/// file.  The caller holds the Lock.
void check_elsewhere(const Dataset& dataset);

}  // namespace bora::data::hdf5::detail
