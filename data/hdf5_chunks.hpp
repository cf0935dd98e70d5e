// SPDX-License-Identifier: Apache-2.0
// Reading of data sets without the HDF5 library's reader, so that its one lock is held only to find
// out where the bytes are.  For data/hdf5*.cpp only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "data/hdf5.hpp"
#include "data/hdf5_decode.hpp"
#include "data/hdf5_stored.hpp"

namespace bora::data::hdf5::detail {

/// Gives up the calling thread's Lock, however often it holds it, for a scope.  The thread must not
/// wait for anything that a holder of the Lock may have (another mutex taken inside the Lock).
class Unlocked {
 public:
  Unlocked();
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  int depth_;
};

/// A block of a data set that is read, inflated and converted here, outside of the Lock.
///
/// For files open for reading by the usual driver; data sets in one piece or in chunks with the
/// filters deflate, shuffle and fletcher32; numbers whose conversion is a C cast (not between kinds
/// of floats, but f32 to f64 and native f64 to f32; not from floats to integers).  The values have
/// the same bits as the library's.  What was never written gives the fill value.  Where chunks lie
/// is remembered for other reads of the same file (hdf5_stored.hpp).
class DirectRead {
 public:
  /// Nothing if it cannot be done here; `why` then says why.  The caller holds the Lock; the block
  /// lies inside the extents.
  static std::unique_ptr<DirectRead> plan(const Dataset& dataset, std::span<const int64_t> extents,
                                          std::span<const int64_t> begin,
                                          std::span<const int64_t> count, DType type,
                                          std::string& why);
  /// What is known of a data set, for reads without the library; nothing if it cannot be read here
  /// or its file is too young to be known again.  The caller holds the Lock.
  static std::shared_ptr<StoredArray> known(const Dataset& dataset,
                                            std::span<const int64_t> extents);
  ~DirectRead();
  /// Fills the block's values in C order; false if one is out of the range of an integer type.  The
  /// caller holds the Lock, which is given up for most of the time.  Throws Error naming the chunk
  /// and what is wrong: damaged, truncated.
  bool read(void* to);

 private:
  struct Plan;
  explicit DirectRead(std::unique_ptr<Plan> plan);
  bool read_chunks(void* to);
  std::unique_ptr<Plan> plan_;
};

}  // namespace bora::data::hdf5::detail
