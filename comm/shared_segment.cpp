// SPDX-License-Identifier: Apache-2.0
#include "comm/shared_segment.hpp"

#include "core/error.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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

// Removes the name once all ranks have the memory, or if they will not.
class Unlinked {
 public:
  explicit Unlinked(const char* name) : name_(name) {}
  ~Unlinked() {
    if (name_[0] != 0) ::shm_unlink(name_);
  }
  Unlinked(const Unlinked&) = delete;
  Unlinked& operator=(const Unlinked&) = delete;

 private:
  const char* name_;
};

}  // namespace

SharedSegment::SharedSegment(const HostGroup& group, int64_t bytes) : bytes_(bytes) {
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  stride_ = std::max<int64_t>((bytes + page - 1) / page, 1) * page;
  const int64_t total = stride_ * group.size();

  std::array<char, kNameBytes> mine{};  // the leader's; empty: could not be made
  const Unlinked unlinked(mine.data());
  int fd = -1;
  if (group.is_leader()) {
    write_name(mine.data());
    fd = ::shm_open(mine.data(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || ::ftruncate(fd, total) != 0) {
      why_ = detail::join("shared memory of ", total, " bytes: ", std::strerror(errno));
      if (fd >= 0) ::shm_unlink(mine.data());
      mine[0] = 0;
    }
  }
  const auto names = all_gather(group.transport(), mine, "sharing memory");
  const char* const name = names[0].data();
  if (name[0] != 0) {
    if (!group.is_leader()) fd = ::shm_open(name, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) {
      why_ = detail::join("shared memory ", name, ": ", std::strerror(errno));
    } else {
      map(fd, total, group.index());
    }
  }
  if (fd >= 0) ::close(fd);
  const int have = base_ != nullptr && why_.empty() ? 1 : 0;
  const auto all = all_gather(group.transport(), have, "sharing memory");
  ok_ = std::find(all.begin(), all.end(), 0) == all.end();
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
