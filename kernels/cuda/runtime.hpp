// SPDX-License-Identifier: Apache-2.0
// Inner header of kernels/cuda: the CUDA runtime's status codes as errors, and the current device.
#pragma once

#include <cuda_runtime_api.h>

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

/// Makes a device the thread's while it lives.
class DeviceGuard {
 public:
  explicit DeviceGuard(int index) : wanted_(index) {
    BORA_RUNTIME(cudaGetDevice(&previous_));
    if (previous_ != wanted_) BORA_RUNTIME(cudaSetDevice(wanted_));
  }
  ~DeviceGuard() {
    if (previous_ != wanted_) BORA_RUNTIME_WARN(cudaSetDevice(previous_));
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int wanted_, previous_ = 0;
};

}  // namespace bora::kernels::cuda
