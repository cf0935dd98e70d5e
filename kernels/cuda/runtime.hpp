// SPDX-License-Identifier: Apache-2.0
// Inner header of kernels/cuda: the CUDA runtime's status codes as errors, and the current device.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "core/status.hpp"

namespace bora::kernels::cuda {

/// Traits for check<>.
struct RuntimeStatus {
  using Code = cudaError_t;
  static constexpr const char* name = "CUDA";
  static bool ok(Code code) { return code == cudaSuccess; }
  static std::string text(Code code) {
    static_cast<void>(cudaGetLastError());  // else the next check of a kernel launch would see it
    return std::string(cudaGetErrorString(code)) + " (code " + std::to_string(code) + ")";
  }
};

#define BORA_RUNTIME(expr) ::bora::check<::bora::kernels::cuda::RuntimeStatus>((expr), #expr)
#define BORA_RUNTIME_WARN(expr) \
  ::bora::check_warn<::bora::kernels::cuda::RuntimeStatus>((expr), #expr)

/// One bit for each device that this process has chosen to work on.
inline std::atomic<uint64_t>& chosen_devices() {
  static std::atomic<uint64_t> bits{0};
  return bits;
}
constexpr uint64_t device_bit(int index) { return uint64_t{1} << (index & 63); }

/// Makes a device the thread's while it lives.  Then the one before it is again, if the process
/// works on that one: a thread that has chosen none stands on device 0, and cudaSetDevice would
/// make a context there (some hundred MiB for each rank of the host, an error on exclusive
/// devices).
class DeviceGuard {
 public:
  explicit DeviceGuard(int index) : wanted_(index) {
    BORA_RUNTIME(cudaGetDevice(&previous_));
    if (previous_ != wanted_) BORA_RUNTIME(cudaSetDevice(wanted_));
    if ((chosen_devices() & device_bit(wanted_)) == 0) chosen_devices() |= device_bit(wanted_);
  }
  ~DeviceGuard() {
    if (previous_ != wanted_ && (chosen_devices() & device_bit(previous_)) != 0)
      BORA_RUNTIME_WARN(cudaSetDevice(previous_));
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int wanted_, previous_ = 0;
};

}  // namespace bora::kernels::cuda
