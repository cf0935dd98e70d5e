// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: memory that the ranks of one host share.
#pragma once

#include "comm/host_group.hpp"

#include <cstdint>
#include <string>

namespace bora {

/// One part for each rank of a host group, each readable and writable by all of them.  The memory
/// goes when the last rank has unmapped it, also after a crash: its name is removed as soon as all
/// ranks have it.
///
/// POSIX shared memory rather than MPI_Win_allocate_shared: freeing an MPI window waits for all
/// ranks without a limit, which a rank that fails must not do; and space is asked for here, so that
/// a small /dev/shm is an error with a text instead of a signal.
class SharedSegment {
 public:
  /// Collective over the group, all of whose ranks must be known to be there.  `bytes` for each
  /// rank, the same on all.  Where it cannot be had ok() is false on all ranks, and why() says why
  /// on those that know.
  SharedSegment(const HostGroup& group, int64_t bytes);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  bool ok() const { return ok_; }
  const std::string& why() const { return why_; }
  /// Rank i's part (i counts in the group), at a page's begin, zero at first.
  char* part(int i) const { return base_ + i * stride_; }
  int64_t bytes() const { return bytes_; }

 private:
  void map(int fd, int64_t total, int index);

  char* base_ = nullptr;
  int64_t bytes_ = 0, stride_ = 0, total_ = 0;
  bool ok_ = false;
  std::string why_;
};

}  // namespace bora
