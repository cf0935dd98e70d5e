// SPDX-License-Identifier: Apache-2.0
// read_at: bytes of an open file at a place, whatever interrupts it.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace bora::data {

/// Reads up to `bytes` bytes from byte `at` on into `to`, fewer where the file ends.  Returns how
/// many, or minus the errno of what went wrong.
inline int64_t read_at(int file, int64_t at, int64_t bytes, void* to) {
  constexpr int64_t kAtOnce = int64_t{1} << 30;  // the system takes less than 2 GiB a call
  int64_t done = 0;
  while (done < bytes) {
    const ssize_t n = ::pread(file, static_cast<char*>(to) + done,
                              static_cast<size_t>(std::min(bytes - done, kAtOnce)), at + done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -errno;
    if (n == 0) break;
    done += n;
  }
  return done;
}

}  // namespace bora::data
