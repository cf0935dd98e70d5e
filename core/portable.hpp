// SPDX-License-Identifier: Apache-2.0
// What lets one source file be built by g++ and by nvcc.
#pragma once

#if defined(__CUDACC__)
#define BORA_HD __host__ __device__
#else
#define BORA_HD
#endif

/// BORA_IF_CUDA(expr): `expr` in a CUDA build (or one for the emulator of tests), a throw
/// elsewhere, so that a dispatch switch has the same arms in every build.
#if defined(BORA_CUDA) || defined(BORA_EMULATED_CUDA)
#define BORA_IF_CUDA(...) __VA_ARGS__
#else
#define BORA_IF_CUDA(...) ::bora::detail::throw_built_without_cuda()
#endif

namespace bora::detail {
[[noreturn]] void throw_built_without_cuda();
}  // namespace bora::detail
