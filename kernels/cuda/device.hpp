// SPDX-License-Identifier: Apache-2.0
// CUDA devices as programs see them: whether there are any, which, and why not.  One binary serves
// machines with and without a GPU or driver, so nothing here fails where there is none.
#pragma once

#include <cstdint>
#include <string>

namespace bora::kernels::cuda {

/// Devices that this process may use (CUDA_VISIBLE_DEVICES counts).  0 without a driver, without a
/// device, or in a build without CUDA; never an error.  The first call starts the driver, which
/// takes up to half a second.
int n_devices();
/// Why n_devices() is 0 and what to do about it, for messages; empty if it is not 0.
std::string why_no_cuda();
/// Whether the devices are those of the tests' emulator (BORA_EMULATOR=ON).
bool is_emulated();

/// "NVIDIA H200, 139 GiB, 132 SMs, sm_90".  Throws Error unless 0 <= index < n_devices().
std::string device_description(int index);
/// "GPU-" and the device's 16 bytes as nvidia-smi writes them: equal for the same device only,
/// whatever the numbering.  Throws Error as above.
std::string device_uuid(int index);
/// Bytes of the device's memory that nobody has taken, this process included; -1 for the emulated
/// one, which is host memory.  Throws Error as above.
int64_t free_device_memory(int index);
/// The CUDA version this binary was built with, and the newest one that the driver supports (0
/// without a driver), as 1000 * major + 10 * minor; 0 in a build without CUDA.
int runtime_version();
int driver_version();
/// "CUDA 13.0, driver for 13.1", or why_no_cuda().
std::string versions_text();

/// Puts the backend for DeviceType::cuda in place if there is a device; else does nothing.  At the
/// start of programs, before threads; again: no effect.
void install_cuda_backend();
/// Makes the device the calling thread's: kernels are started on it.  Call it once for the device
/// that the process computes on.  Throws Error as device_description().
void bind_device(int index);

/// Calls that reached the CUDA runtime through the backend so far, by kind.  In the steady step of
/// a training run only records, waits, pinned copies and launches may grow.
struct DeviceCounters {
  int64_t allocations = 0, frees = 0;
  int64_t pinned_allocations = 0;
  int64_t copies = 0;           ///< that the host did not wait for
  int64_t blocking_copies = 0;  ///< from or to pageable host memory
  int64_t records = 0, waits = 0;
  int64_t synchronizes = 0;  ///< the host waited for a stream or an event
  int64_t captures = 0, graph_launches = 0;
};
DeviceCounters device_counters();

}  // namespace bora::kernels::cuda
