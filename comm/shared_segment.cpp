// SPDX-License-Identifier: Apache-2.0
#include "comm/shared_segment.hpp"

#include "core/error.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>

namespace bora {
namespace {

constexpr int kNameBytes = 64;

// Nobody else's name: created with O_EXCL, and gone a moment later.
void write_name(char* name) {
  static std::atomic<unsigned> count{0};
  std::random_device random;
  std::snprintf(name, kNameBytes, "/bora-%ld-%u-%08x", static_cast<long>(::getpid()), count++,
                random());
}

}  // namespace

SharedSegment::SharedSegment(const HostGroup& group, int64_t bytes) : bytes_(bytes) {
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  stride_ = std::max<int64_t>((bytes + page - 1) / page, 1) * page;
  const int64_t total = stride_ * group.size();

  char name[kNameBytes] = {};  // empty: could not be made
  int fd = -1;
  if (group.is_leader()) {
    write_name(name);
    fd = ::shm_open(name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || ::ftruncate(fd, total) != 0) {
      why_ = detail::join("shared memory of ", total, " bytes: ", std::strerror(errno));
      if (fd >= 0) ::shm_unlink(name);
      name[0] = 0;
    }
  }
  BORA_MPI(MPI_Bcast(name, kNameBytes, MPI_BYTE, 0, group.comm()));
  if (name[0] != 0) {
    if (!group.is_leader()) fd = ::shm_open(name, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) {
      why_ = detail::join("shared memory ", name, ": ", std::strerror(errno));
    } else {
      map(fd, total, group.index());
    }
  }
  if (fd >= 0) ::close(fd);
  int mine = base_ != nullptr && why_.empty() ? 1 : 0, all = 0;
  BORA_MPI(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, group.comm()));
  if (group.is_leader() && name[0] != 0) ::shm_unlink(name);
  ok_ = all != 0;
}

SharedSegment::~SharedSegment() {
  if (base_ != nullptr) ::munmap(base_, static_cast<size_t>(total_));
}

void SharedSegment::map(int fd, int64_t total, int index) {
  // Each rank asks for its own part, so that it lies near that rank.
  const int lacking = ::posix_fallocate(fd, index * stride_, stride_);
  if (lacking != 0) {
    why_ = detail::join("shared memory of ", total, " bytes (", stride_,
                        " of this rank): ", std::strerror(lacking), "; is /dev/shm large enough?");
    return;
  }
  void* at = ::mmap(nullptr, static_cast<size_t>(total), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    why_ = detail::join("mapping shared memory of ", total, " bytes: ", std::strerror(errno));
    return;
  }
  // Fewer page faults and TLB misses where the system allows it; elsewhere it does nothing.
  ::madvise(at, static_cast<size_t>(total), MADV_HUGEPAGE);
  base_ = static_cast<char*>(at);
  total_ = total;
}

}  // namespace bora
