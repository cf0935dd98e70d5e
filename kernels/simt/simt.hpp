// SPDX-License-Identifier: Apache-2.0
// What kernel code sees when g++ builds it for the emulator: the words of CUDA that
// kernels/launch.hpp allows, and how a launch gets to the scheduler.  No CUDA header is needed.
//
// The words that are macros are reserved names (two leading underscores), so ordinary code cannot
// meet them; threadIdx and its like are variables of the global namespace, as in CUDA.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <type_traits>

#include "core/stream.hpp"
#include "kernels/simt/emulator.hpp"

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1)  // NOLINT: implicit, as CUDA's
      : x(x_), y(y_), z(z_) {}
};

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
// Blocks of an OS thread run one after the other, so that its threads' copy is the block's.
#define __shared__ static thread_local

#define BORA_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(::bora::simt::detail::dynamic_shared())
#define BORA_UNROLL

inline constinit thread_local uint3 threadIdx{}, blockIdx{};
inline constinit thread_local dim3 blockDim{}, gridDim{};
inline constexpr int warpSize = 32;

namespace bora::simt {

namespace detail {

enum class WarpOp : uint8_t { shuffle, ballot, sync };

/// All threads of the block meet here.
void barrier(const std::source_location& where);
/// The lanes of `mask` meet; returns for a shuffle the `value` of lane `source`, for a ballot the
/// lanes whose value is not 0.
uint64_t meet_lanes(WarpOp op, unsigned mask, uint64_t value, unsigned source,
                    const std::source_location& where);
/// The number of this thread in its warp.
unsigned lane();
void* dynamic_shared();

/// Checks the shape, then runs or records `thread_body` for each thread of the grid.
void launch(const char* what, Stream stream, dim3 grid, dim3 block, size_t shared_bytes,
            const void* kernel, std::function<void()> thread_body);

template <class T>
T shuffle(unsigned mask, T value, unsigned source, const std::source_location& where) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = meet_lanes(WarpOp::shuffle, mask, bits, source, where);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace detail

/// kernel<<<grid, block, shared_bytes, stream>>>(args...): runs at once, or is recorded where the
/// stream is being captured.  Throws Error beginning with `what` where a device would refuse the
/// launch, and for what a kernel does wrong: a divergent barrier, lanes of a mask that do not meet,
/// an exception of its own.  Also used by kernels/launch.hpp, which is what callers call.
template <class... Params>
void launch(const char* what, Stream stream, dim3 grid, dim3 block, size_t shared_bytes,
            void (*kernel)(Params...), std::type_identity_t<Params>... args) {
  static_assert((std::is_trivially_copyable_v<Params> && ...),
                "arguments go to a device byte by byte");
  static_assert((sizeof(Params) + ... + 0) <= 4096, "CUDA takes 4 KiB of arguments");
  detail::launch(what, stream, grid, block, shared_bytes, reinterpret_cast<const void*>(kernel),
                 [=] { kernel(args...); });
}

}  // namespace bora::simt

// The default arguments below are the caller's place, for messages.

inline void __syncthreads(const std::source_location& where = std::source_location::current()) {
  ::bora::simt::detail::barrier(where);
}
inline void __syncwarp(unsigned mask = 0xffffffffu,
                       const std::source_location& where = std::source_location::current()) {
  ::bora::simt::detail::meet_lanes(::bora::simt::detail::WarpOp::sync, mask, 0, 0, where);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              const std::source_location& where = std::source_location::current()) {
  const unsigned lane = ::bora::simt::detail::lane(), w = static_cast<unsigned>(width);
  return ::bora::simt::detail::shuffle(
      mask, value, (lane & ~(w - 1)) + (static_cast<unsigned>(source) & (w - 1)), where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  const std::source_location& where = std::source_location::current()) {
  const unsigned lane = ::bora::simt::detail::lane(), w = static_cast<unsigned>(width);
  const unsigned other = lane ^ static_cast<unsigned>(lane_mask);
  return ::bora::simt::detail::shuffle(mask, value, other < (lane & ~(w - 1)) + w ? other : lane,
                                       where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   const std::source_location& where = std::source_location::current()) {
  const unsigned lane = ::bora::simt::detail::lane(), w = static_cast<unsigned>(width);
  return ::bora::simt::detail::shuffle(mask, value,
                                       (lane & (w - 1)) + delta < w ? lane + delta : lane, where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 const std::source_location& where = std::source_location::current()) {
  const unsigned lane = ::bora::simt::detail::lane(), w = static_cast<unsigned>(width);
  return ::bora::simt::detail::shuffle(mask, value, (lane & (w - 1)) >= delta ? lane - delta : lane,
                                       where);
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              const std::source_location& where = std::source_location::current()) {
  return static_cast<unsigned>(::bora::simt::detail::meet_lanes(
      ::bora::simt::detail::WarpOp::ballot, mask, predicate != 0, 0, where));
}
inline int __any_sync(unsigned mask, int predicate,
                      const std::source_location& where = std::source_location::current()) {
  return __ballot_sync(mask, predicate, where) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      const std::source_location& where = std::source_location::current()) {
  return __ballot_sync(mask, predicate, where) == mask;
}

// Atomics, integers only: the result of others would depend on the order of threads.
template <std::integral T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}
template <std::integral T>
T atomicSub(T* at, std::type_identity_t<T> value) {
  return __atomic_fetch_sub(at, value, __ATOMIC_RELAXED);
}
template <std::integral T>
T atomicOr(T* at, std::type_identity_t<T> value) {
  return __atomic_fetch_or(at, value, __ATOMIC_RELAXED);
}
template <std::integral T>
T atomicAnd(T* at, std::type_identity_t<T> value) {
  return __atomic_fetch_and(at, value, __ATOMIC_RELAXED);
}
template <std::integral T>
T atomicExch(T* at, std::type_identity_t<T> value) {
  return __atomic_exchange_n(at, value, __ATOMIC_RELAXED);
}
template <std::integral T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
template <std::integral T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  T old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (old < value &&
         !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
template <std::integral T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  T old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (value < old &&
         !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
