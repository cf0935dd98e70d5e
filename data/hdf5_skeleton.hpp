// SPDX-License-Identifier: Apache-2.0
// Skeleton: all that the HDF5 library writes into a file but the contents of its data sets.
#pragma once

#include <cstdint>
#include <memory>

#include "data/hdf5.hpp"

namespace bora::data::hdf5 {

/// A file that the library lays out in memory.  Data sets take their place when they are made
/// (Skeleton::layout), nobody writes to them, and H5Dget_offset says where their contents belong:
/// so the file can be written from front to back by other means than the library, which cannot
/// give up a file that it failed to write (disk full), and which holds its one lock meanwhile.
/// Costs memory for what is not contents alone.
class Skeleton {
 public:
  /// `user_block`: bytes before the library's part, 0 or 512 and up (a power of two).
  explicit Skeleton(int64_t user_block);
  ~Skeleton();
  Skeleton(const Skeleton&) = delete;
  Skeleton& operator=(const Skeleton&) = delete;

  /// Ids of the file, and of a list for creating data sets: contents in one block, whose place is
  /// chosen at once; no times, so that the same calls give the same bytes.
  int64_t file() const { return file_.get(); }
  int64_t layout() const { return layout_.get(); }

  /// Closes the file; close everything in it before.  The functions below want that.
  void close();
  /// Bytes of the whole file, the user block included.
  int64_t bytes() const;
  /// The bytes from `at` on; zeros where the library wrote nothing (contents, the user block).
  void read(int64_t at, void* out, int64_t n) const;

  /// What the library wrote, in pages.
  struct Pages;

 private:
  std::unique_ptr<Pages> pages_;  // outlives file_
  Id file_, layout_;
};

}  // namespace bora::data::hdf5
