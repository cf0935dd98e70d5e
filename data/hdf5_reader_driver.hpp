// SPDX-License-Identifier: Apache-2.0
// A file driver for the HDF5 library that looks at what it reads.  For data/hdf5*.cpp only.
#pragma once

#include <cstdint>
#include <string>

#include "data/hdf5.hpp"

namespace bora::data::hdf5::detail {

/// Sets the driver on a file access list (H5Pset_driver).  Reads as the library's own "sec2" does,
/// without locks, and gives the descriptor as its handle.
///
/// Why: the library (1.10.8 seen) believes what a file says.  From a broken file it copies objects
/// of its "global heap" (texts of variable length, lists) over the end of its buffers.  Here a read
/// of such a heap whose sizes do not fit fails, as does one that begins behind the file's end; the
/// library then gives an error.
void set_reader_driver(int64_t access_list);

/// What H5Fget_vfd_handle points to.
struct ReaderHandle {
  int descriptor = -1;
  std::string state;  ///< of the file when it was opened (state_of); empty: not to be known again
};

/// Whether this is the driver of an access list.
bool is_reader_driver(int64_t access_list);

/// Refuses a data set that is stored inside its header ("compact") with fewer bytes than its
/// extents take: the library copies behind them.  Throws Error.
void check_compact(const Dataset& dataset);

}  // namespace bora::data::hdf5::detail
