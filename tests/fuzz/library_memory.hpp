// SPDX-License-Identifier: Apache-2.0
// What makes the HDF5 library fast enough to fuzz.
#pragma once

#include <hdf5.h>

#include <cstdlib>

#include "data/hdf5.hpp"

namespace bora::fuzz {

/// Lets the library keep the half MiB that it takes for each open file: given back and taken anew,
/// its pages would cost more than the reading.  Once for a process; memory of ours is not touched.
inline void keep_library_memory() {
  static const bool once = [] {
    const data::hdf5::Lock lock;
    constexpr int kAll = 16 << 20, kList = 4 << 20;
    if (H5set_free_list_limits(kAll, kList, -1, -1, -1, -1) < 0) std::abort();
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace bora::fuzz
