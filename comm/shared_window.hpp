// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: counters and buffers through which the ranks of a host work together.
#pragma once

#include "comm/shared_segment.hpp"

#include <atomic>
#include <cstdint>
#include <string>

namespace bora {

/// Each rank has marks (counters that only grow, written by that rank alone), two slots for records
/// and small data, and three stages for pieces of large data, used in turn.  Nothing here waits:
/// Engine does, with a limit.
class SharedWindow {
 public:
  enum Mark {
    arrived,   ///< the record of this operation is there
    filled,    ///< pieces whose data is in the stage
    reduced,   ///< pieces whose slice of this rank is summed
    complete,  ///< pieces that are final in the leader's stage
  };
  static constexpr int kMarks = 4;
  static constexpr uint64_t kSlots = 2, kStages = 3;
  static constexpr int64_t kRecordBytes = 128;
  static constexpr int64_t kBoardBytes = 512;
  /// Data up to this size travels with the record.  Measured: up to here one exchange in which
  /// every rank sums everything beats two with slices, on 2 and on 4 ranks.
  static constexpr int64_t kSmallBytes = int64_t{16} << 10;

  /// Collective over the group, as SharedSegment.
  SharedWindow(const HostGroup& group, int64_t stage_bytes);

  bool ok() const { return segment_.ok(); }
  const std::string& why() const { return segment_.why(); }
  int size() const { return size_; }
  int64_t stage_bytes() const { return stage_bytes_; }

  char* board(int i) const;                  ///< rank i's place for StatusBoard, kBoardBytes
  char* record(int i, uint64_t turn) const;  ///< rank i's, kRecordBytes
  char* small(int i, uint64_t turn) const;   ///< rank i's, kSmallBytes
  char* stage(int i, uint64_t turn) const;   ///< rank i's, stage_bytes()

  uint64_t mark(int i, Mark which) const {
    return counter(i, which).load(std::memory_order_acquire);
  }
  void set_mark(Mark which, uint64_t value) {
    counter(index_, which).store(value, std::memory_order_release);
  }
  bool all_at(Mark which, uint64_t value) const {
    for (int i = 0; i < size_; ++i)
      if (mark(i, which) < value) return false;
    return true;
  }

 private:
  using Counter = std::atomic<uint64_t>;
  static_assert(Counter::is_always_lock_free, "must work between processes");
  static constexpr int64_t kLine = 64;
  Counter& counter(int i, Mark which) const {
    return *reinterpret_cast<Counter*>(segment_.part(i) + which * kLine);
  }

  int size_, index_;
  int64_t stage_bytes_;
  SharedSegment segment_;
};

}  // namespace bora
