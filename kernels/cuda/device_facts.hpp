// SPDX-License-Identifier: Apache-2.0
// What the CUDA runtime says about a device, as text for reports; marks for profilers.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/device.hpp"

namespace bora::kernels::cuda {

/// Name, multiprocessors, compute capability, memory, caches, clocks, uuid.  Throws Error if the
/// device is none of this machine's.
std::map<std::string, std::string> device_facts(Device device);

/// Bytes of the device's memory that are in use, by this process and others.  Throws Error.
int64_t memory_in_use(Device device);

/// Begins or ends what a profiler that was told to wait for it looks at.
void profiler(bool on);

}  // namespace bora::kernels::cuda
