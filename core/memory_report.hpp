// SPDX-License-Identifier: Apache-2.0
// Figures of all memory of a device, whichever allocator it came from.
#pragma once

#include "core/allocator.hpp"

namespace bora {

/// Sums over the device's allocator and all pools (AllocationPoolScope, StepGraph) that live.  The
/// peak is the sum of their peaks: what was needed if they peaked at once, an upper bound else.
MemoryStats memory_of(Device device);
/// reset_peak() for all of them.
void reset_memory_peaks(Device device);

}  // namespace bora
