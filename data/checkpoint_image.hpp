// SPDX-License-Identifier: Apache-2.0
// CheckpointImage: the bytes of a checkpoint file, whose large parts lie where the state was copied
// to.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "data/atomic_file.hpp"
#include "data/hdf5_skeleton.hpp"

namespace bora::data::detail {

/// One entry of a checkpoint and where its bytes lie.
struct CheckpointEntry {
  /// What the elements are: of a tensor, or of values.
  enum class Element { tensor, i64, u64, f64, boolean, text };

  std::string name, axes;
  const char* kind = nullptr;  ///< as the file spells it
  Element element = Element::tensor;
  DType type = DType::f32;       ///< of a tensor's elements
  int64_t width = 0;             ///< bytes of each text, padded with zeros
  std::vector<int64_t> extents;  ///< none: one element
  const void* data = nullptr;
  int64_t bytes = 0;
};

/// Lays the file out and computes its checksums when it is made; write() then goes through it once,
/// from front to back.  Holds HDF5's lock for the layout of one entry at a time, and while nothing
/// large is read or written.  The entries' bytes must stay as they are while it lives.
class CheckpointImage {
 public:
  explicit CheckpointImage(const std::vector<CheckpointEntry>& entries);

  int64_t bytes() const { return bytes_; }
  /// Adds to `progress` as bytes are handed to the system.  Throws Error as AtomicFile does.
  void write(AtomicFile& file, std::atomic<int64_t>& progress) const;

 private:
  struct Part {
    int64_t at;  ///< in the file
    const void* data;
    int64_t bytes;
    uint64_t sum;
  };
  void add(const CheckpointEntry& entry, int64_t group);
  /// Calls visit(at, bytes, part or nullptr) for all that follows the header, in order.
  template <class Visit>
  void go_through(Visit&& visit) const;

  hdf5::Skeleton skeleton_;
  std::vector<Part> parts_;  // in order of their place
  std::string header_;
  int64_t bytes_ = 0;
};

}  // namespace bora::data::detail
