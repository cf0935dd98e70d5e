// SPDX-License-Identifier: Apache-2.0
// How much memory a process may still take.
#pragma once

#include <cstdint>
#include <string>

#include "core/device.hpp"

namespace bora::train {

/// Where the kernel says so.  Another value than the default is for tests.
struct MemorySources {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

struct FreeMemory {
  int64_t bytes = 0;   ///< -1: nobody says
  std::string reason;  ///< what sets the limit: "free on the host", "limit of the job's cgroup"
};

/// The smaller of what the host has free (MemAvailable) and what the control groups of this process
/// leave to it (version 2 and 1; a batch system's limit of a job), the cache that they count and
/// could give back taken as free.  Shared by all ranks of the host, or of the group.
FreeMemory free_host_memory(const MemorySources& sources = {});

/// What a device has free: "cuda:0 has so much free"; for the CPU free_host_memory().
FreeMemory free_memory(Device device);

}  // namespace bora::train
