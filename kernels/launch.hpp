// SPDX-License-Identifier: Apache-2.0
// launch: starts a __global__ function on a stream.  The one place that does, so that the same
// kernel source is built by nvcc for a GPU and by g++ for the emulator (kernels/simt), which the
// tests run it in.
//
// What a kernel must keep to so that both can build it:
//  - launch(), never <<<>>>;
//  - dynamic shared memory through BORA_DYNAMIC_SHARED(type, name), static through __shared__;
//  - __syncthreads, __syncwarp, __shfl_*_sync, __ballot_sync, __any_sync, __all_sync and integer
//    atomics only; no cooperative groups, no inline PTX but behind __CUDA_ARCH__ with a plain path
//    beside it;
//  - no atomics on floating types at all: sums have an order fixed by the shape.
#pragma once

#include "kernels/portable.hpp"

#if defined(BORA_DEVICE_CODE)

#if defined(__CUDACC__)
#define BORA_DYNAMIC_SHARED(type, name)                                \
  extern __shared__ __align__(16) unsigned char bora_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(bora_dynamic_shared)
#if defined(__CUDA_ARCH__)  // the host's half of a BORA_HD function is g++'s, which knows it not
#define BORA_UNROLL _Pragma("unroll")
#else
#define BORA_UNROLL
#endif
#else
#include "kernels/simt/simt.hpp"
#endif

namespace bora::kernels {

/// Size of a launch.
struct LaunchShape {
  dim3 grid{1};
  dim3 block{kBlockThreads};
  size_t shared_bytes = 0;  ///< dynamic shared memory; above 48 KiB it is asked for
};

/// kernel<<<shape>>>(args...) on `stream`, which is a CUDA stream.  `what` names the caller in
/// messages. Throws Error with CUDA's text if the launch fails.
template <class... Params, class... Args>
void launch(const char* what, Stream stream, const LaunchShape& shape, void (*kernel)(Params...),
            const Args&... args) {
#if defined(__CUDACC__)
  if (shape.shared_bytes > 48 * 1024) {
    const cudaError_t error = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shape.shared_bytes));
    BORA_CHECK(error == cudaSuccess, what, ": ", shape.shared_bytes,
               " bytes of shared memory: ", cudaGetErrorString(error));
  }
  kernel<<<shape.grid, shape.block, shape.shared_bytes, native(stream)>>>(
      static_cast<Params>(args)...);
  check_launch(what);
#else
  simt::launch(what, stream, shape.grid, shape.block, shape.shared_bytes, kernel,
               static_cast<Params>(args)...);
#endif
}

}  // namespace bora::kernels

#endif
