// SPDX-License-Identifier: Apache-2.0
// The memory of the emulated device: one reserved range of addresses, so that a pointer tells whose
// it is and one system call opens or closes all of it.
#pragma once

#include <cstdint>

namespace bora::simt::detail {

/// Page-aligned memory that holds NaN in every floating type; throws Error when there is none.
void* device_allocate(int64_t bytes);
/// Later accesses end the program.
void device_free(void* data, int64_t bytes) noexcept;

/// While one lives, the calling process may touch device memory; matters in strict mode only.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

}  // namespace bora::simt::detail
