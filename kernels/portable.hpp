// SPDX-License-Identifier: Apache-2.0
// What the launch shapes share: conversions at the border of memory, 16-byte packs, and on CUDA the
// size of a launch and the check behind it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/dtype.hpp"
#include "core/portable.hpp"
#include "core/tensor.hpp"

// Device code is built by nvcc, or by g++ for the emulator.
#if defined(__CUDACC__)
#include <cuda_runtime.h>
#define BORA_DEVICE_CODE 1
#elif defined(BORA_EMULATED_CUDA)
#define BORA_DEVICE_CODE 1
#endif

namespace bora::kernels {

/// Memory to arithmetic: Half and BFloat16 become float, other types stay.
template <class T>
BORA_HD constexpr acc_t<T> load(T value) {
  return static_cast<acc_t<T>>(value);
}

/// W elements that are moved by one instruction.
template <class T, int W = 16 / static_cast<int>(sizeof(T))>
struct alignas(sizeof(T) * W) Pack {
  T v[W];
};

/// Whether device code exists for f64.  Not on a GPU: f64 is for gradient checks.  The emulator has
/// it, so that these run over the device code, too.
#if defined(BORA_EMULATED_CUDA)
inline constexpr bool kDeviceHasF64 = true;
#else
inline constexpr bool kDeviceHasF64 = false;
#endif

/// A kernel functor with `static constexpr bool kHostOnly = true` is for f64 and has no device
/// code, but in the emulator.
template <class F>
constexpr bool host_only() {
  if constexpr (kDeviceHasF64) return false;
  if constexpr (requires { F::kHostOnly; }) {
    return F::kHostOnly;
  } else {
    return false;
  }
}

/// Loops over fewer elements than this stay on one thread: starting threads costs some
/// microseconds.
inline constexpr int64_t kThreadWorthy = 32768;

[[noreturn]] inline void throw_host_only(const char* what) {
  BORA_FAIL(what, ": f64 is for gradient checks on the CPU, there are no CUDA kernels for it");
}

#if defined(BORA_DEVICE_CODE)

inline constexpr int kBlockThreads = 256;

/// Blocks for n independent threads; kernels stride over the rest.  2^16 blocks fill any device.
inline unsigned blocks_for(int64_t n_threads) {
  const int64_t blocks = (n_threads + kBlockThreads - 1) / kBlockThreads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > 65536 ? 65536 : blocks);
}

#endif
#if defined(__CUDACC__)

/// The launch just made: throws Error with CUDA's text and the name of the kernel's user.
inline void check_launch(const char* what) {
  const cudaError_t error = cudaGetLastError();
  BORA_CHECK(error == cudaSuccess, what, ": kernel launch failed: ", cudaGetErrorString(error));
}

inline cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream.native); }

#endif

}  // namespace bora::kernels
