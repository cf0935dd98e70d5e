// SPDX-License-Identifier: Apache-2.0
// gemm() by cuBLAS.
//
// The same bits from run to run on one model of GPU: cuBLAS promises that for one version and
// number of multiprocessors, unless atomics are allowed or several streams share a handle.  So
//  - atomics are forbidden: sums that are split along k are joined in a fixed order;
//  - each (thread, stream) has a handle and a workspace of its own, of a size that does not depend
//    on what was called before, so the choice of kernel does not either;
//  - sums that are split are joined in f32, also for 16-bit results;
//  - f32 operands are multiplied as f32: neither TF32 nor emulation by bf16, whatever the
//    environment asks for.
#include <map>
#include <utility>

#include "kernels/cublas/gemm_call.hpp"
#include "kernels/cublas/library.hpp"
#include "kernels/cuda/runtime.hpp"
#include "kernels/portable.hpp"

namespace bora::kernels::cuda {
namespace {

using cublas::check;
using cublas::library;

/// NVIDIA's recommendation for sm_90, more than enough for sm_80; part of what fixes the bits.
constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;

class Handle {
 public:
  explicit Handle(Stream stream)
      : workspace_(Tensor::empty({kWorkspaceBytes}, DType::u8, stream.device)) {
    check(library().create(&handle_), "cublasCreate");
    try {
      // The stream first: setting it takes the workspace away.
      check(library().set_stream(handle_, static_cast<cudaStream_t>(stream.native)),
            "cublasSetStream");
      check(library().set_workspace(handle_, workspace_.raw(), kWorkspaceBytes),
            "cublasSetWorkspace");
      check(library().set_atomics_mode(handle_, CUBLAS_ATOMICS_NOT_ALLOWED),
            "cublasSetAtomicsMode");
      check(library().set_math_mode(handle_, static_cast<cublasMath_t>(
                                                 CUBLAS_DEFAULT_MATH |
                                                 CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)),
            "cublasSetMathMode");
    } catch (...) {
      library().destroy(handle_);
      throw;
    }
  }
  ~Handle() { library().destroy(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  cublasHandle_t get() const { return handle_; }

 private:
  Tensor workspace_;
  cublasHandle_t handle_ = nullptr;
};

/// Of this thread.  Made by the first product on a stream: before its work is captured.
cublasHandle_t handle_for(Stream stream) {
  static thread_local std::map<std::pair<int, void*>, Handle> handles;
  return handles.try_emplace({stream.device.index, stream.native}, stream).first->second.get();
}

cudaDataType_t type_of(DType type) {
  switch (type) {
    case DType::f16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f32:
      return CUDA_R_32F;
    default:
      throw_host_only("matrix product");
  }
}

}  // namespace

void gemm(Stream stream, const GemmCall& call) {
  const cudaDataType_t type = type_of(call.type), result = type_of(call.result_type);
  if (call.m == 0 || call.n == 0) return;
  // Pedantic: cuBLAS may not replace f32 arithmetic.  For 16-bit operands that would keep tensor
  // cores away.
  const cublasComputeType_t compute =
      call.type == DType::f32 ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F;
  const DeviceGuard guard(stream.device.index);  // a handle is of the thread's device
  const float alpha = 1, beta = static_cast<float>(call.beta);
  check(library().gemm_ex(handle_for(stream), call.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                          call.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, call.m, call.n, call.k,
                          &alpha, call.a, type, call.lda, call.b, type, call.ldb, &beta, call.c,
                          result, call.ldc, compute, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
}

}  // namespace bora::kernels::cuda
