// SPDX-License-Identifier: Apache-2.0
// Shim until kernels/cuda/device.hpp is there.
#pragma once

#include <string>

#if __has_include("kernels/cuda/device.hpp")
#include "kernels/cuda/device.hpp"
#else
namespace bora::kernels::cuda {
inline int n_devices() { return 0; }
inline std::string why_no_cuda() { return "built without CUDA"; }
inline bool is_emulated() { return false; }
inline std::string device_text(int) { return ""; }
inline std::string device_uuid(int) { return ""; }
inline void install_cuda_backend() {}
}  // namespace bora::kernels::cuda
#endif
