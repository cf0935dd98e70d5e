// SPDX-License-Identifier: Apache-2.0
// A file driver for the HDF5 library that looks at what it reads.  For data/hdf5*.cpp only.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/hdf5.hpp"

namespace bora::data::hdf5::detail {

/// Sets the driver on a file access list (H5Pset_driver).  Reads as the library's own "sec2" does,
/// without locks, and gives the descriptor as its handle.
///
/// Why: the library (1.10.8 seen) believes what a file says.  From a broken file it copies objects
/// of its "global heap" (texts of variable length, lists) over the end of its buffers, and it looks
/// for the end of an attribute's name behind the object's header.  Here a read of such a heap or
/// header fails, as does one that begins behind the file's end; the library then gives an error.
void set_reader_driver(int64_t access_list);

/// What was wrong with what this thread's last read that failed would have handed to the library,
/// and forgets it; empty if there is nothing.
std::string take_refusal();

/// What H5Fget_vfd_handle points to.
struct ReaderHandle {
  int descriptor = -1;
  std::string state;  ///< of the file when it was opened (state_of); empty: not to be known again
  /// Reads of fewer bytes of contents than this fail (ChunkGuard).
  mutable int64_t least_read = 0;
};

/// Whether this is the driver of an access list.
bool is_reader_driver(int64_t access_list);

/// Refuses a data set that is stored inside its header ("compact") with fewer bytes than its
/// extents take: the library copies behind them.  Throws Error.
void check_compact(const Dataset& dataset);

/// Names a missing compression plug-in (Error); the library's own message does not say which data
/// set.
void check_filters(const Dataset& dataset);

/// For a read of a block by the library: refuses chunks that do not hold as many bytes as their
/// elements take, which the library copies from behind its buffers.  Those with filters that only
/// the library knows are not looked at.
class ChunkGuard {
 public:
  /// Throws Error.  The caller holds the Lock; the block lies inside the extents.
  ChunkGuard(const Dataset& dataset, std::span<const int64_t> begin,
             std::span<const int64_t> count);
  /// The read is over.
  ~ChunkGuard();
  ChunkGuard(const ChunkGuard&) = delete;
  ChunkGuard& operator=(const ChunkGuard&) = delete;

 private:
  Id file_;
  const ReaderHandle* handle_ = nullptr;
};

}  // namespace bora::data::hdf5::detail
