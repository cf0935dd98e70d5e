// SPDX-License-Identifier: Apache-2.0
// What Dataset::read refuses of a block, for who takes the memory of it before reading it in
// pieces.  For data/*.cpp only.
#pragma once

#include <cstdint>
#include <span>

#include "data/hdf5.hpp"

namespace bora::data::hdf5::detail {

/// Throws Error for a block that is outside of the extents, or larger than the file can hold.
void check_block(const Dataset& dataset, std::span<const int64_t> begin,
                 std::span<const int64_t> count);

}  // namespace bora::data::hdf5::detail
