// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: NCCL's and the CUDA runtime's status codes as errors.
#pragma once

#include "core/status.hpp"

#include <nccl.h>

#include <string>

namespace bora {

/// Traits for check<>.  In non-blocking mode most calls may answer "in progress"; that is no error.
struct NcclStatus {
  using Code = ncclResult_t;
  static constexpr const char* name = "NCCL";
  static bool ok(Code code) { return code == ncclSuccess || code == ncclInProgress; }
  static std::string text(Code code) { return ncclGetErrorString(code); }
};

struct CudaStatus {
  using Code = cudaError_t;
  static constexpr const char* name = "CUDA";
  static bool ok(Code code) { return code == cudaSuccess; }
  static std::string text(Code code) {
    static_cast<void>(cudaGetLastError());  // else the next check of a kernel launch would see it
    return std::string(cudaGetErrorString(code)) + " (code " + std::to_string(code) + ")";
  }
};

#define BORA_NCCL(expr) ::bora::check<::bora::NcclStatus>((expr), #expr)
#define BORA_NCCL_WARN(expr) ::bora::check_warn<::bora::NcclStatus>((expr), #expr)
// Not BORA_CUDA: that is the build option's definition.
#define BORA_CUDART(expr) ::bora::check<::bora::CudaStatus>((expr), #expr)
#define BORA_CUDART_WARN(expr) ::bora::check_warn<::bora::CudaStatus>((expr), #expr)

}  // namespace bora
