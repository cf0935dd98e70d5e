// SPDX-License-Identifier: Apache-2.0
// 16 bytes at a time: how hand-written kernels read and write memory.  A pack is 8 elements of a
// 16-bit type, 4 of f32 (2 of f64, in the emulator).  Arithmetic sees acc_t only.
//
// Conversions are the hardware's where there is one (__CUDA_ARCH__), core/half.hpp's elsewhere;
// both round to nearest even, so the bits are the same but for NaN: the hardware makes every NaN
// 0x7fff, core/half.hpp keeps its sign and upper payload.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>

#include "core/error.hpp"
#include "kernels/launch.hpp"

namespace bora::kernels::cuda {

/// Elements of T in a pack.
template <class T>
inline constexpr int kPack = 16 / static_cast<int>(sizeof(T));

/// A pack as it lies in memory.
struct alignas(16) Bits128 {
  uint32_t v[4];
};

/// Whether packs may start at `p`.
inline bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % sizeof(Bits128) == 0; }

/// a * b + c, rounded once.  Written out in sums and results, so that all instances of a kernel
/// round alike, whatever the compiler would make of a product and a sum.
template <class A>
BORA_HD inline A multiply_add(A a, A b, A c) {
  return std::fma(a, b, c);
}

/// One load of 16 bytes; p is aligned to them.
BORA_HD inline Bits128 load_bits(const void* p) {
#if defined(__CUDA_ARCH__)
  const uint4 u = *static_cast<const uint4*>(p);
  return {{u.x, u.y, u.z, u.w}};
#else
  BORA_CHECK(aligned(p), "load_bits: ", p, " is not a multiple of 16");
  Bits128 bits;
  std::memcpy(&bits, p, sizeof bits);
  return bits;
#endif
}

/// One store of 16 bytes; p is aligned to them.
BORA_HD inline void store_bits(void* p, const Bits128& bits) {
#if defined(__CUDA_ARCH__)
  *static_cast<uint4*>(p) = make_uint4(bits.v[0], bits.v[1], bits.v[2], bits.v[3]);
#else
  BORA_CHECK(aligned(p), "store_bits: ", p, " is not a multiple of 16");
  std::memcpy(p, &bits, sizeof bits);
#endif
}

namespace detail {

/// The low and the high half of `word` as floats.
template <class T>
BORA_HD inline void widen_pair(uint32_t word, float& low, float& high) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    low = std::bit_cast<float>(word << 16);
    high = std::bit_cast<float>(word & 0xffff0000u);
  } else {
#if defined(__CUDA_ARCH__)
    asm("{.reg .b16 l, h;\n\tmov.b32 {l, h}, %2;\n\tcvt.f32.f16 %0, l;\n\tcvt.f32.f16 %1, h;}"
        : "=f"(low), "=f"(high)
        : "r"(word));
#else
    low = bora::detail::half_value(static_cast<uint16_t>(word));
    high = bora::detail::half_value(static_cast<uint16_t>(word >> 16));
#endif
  }
}

template <class T>
BORA_HD inline uint32_t narrow_pair(float low, float high) {
#if defined(__CUDA_ARCH__)
  uint32_t word;
  if constexpr (std::is_same_v<T, BFloat16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  }
  return word;
#else
  return static_cast<uint32_t>(T(low).bits) | static_cast<uint32_t>(T(high).bits) << 16;
#endif
}

}  // namespace detail

/// The elements of a pack, for arithmetic.
template <class T>
BORA_HD inline void unpack(const Bits128& bits, acc_t<T> (&out)[kPack<T>]) {
  if constexpr (sizeof(T) == 2) {
    BORA_UNROLL
    for (int i = 0; i < 4; ++i) detail::widen_pair<T>(bits.v[i], out[2 * i], out[2 * i + 1]);
  } else if constexpr (sizeof(T) == 4) {
    BORA_UNROLL
    for (int i = 0; i < 4; ++i) out[i] = std::bit_cast<float>(bits.v[i]);
  } else {
    std::memcpy(out, &bits, sizeof bits);
  }
}

/// Elements that share a 32-bit word (all of them for f64).
template <class T>
inline constexpr int kUnit = sizeof(T) == 8 ? kPack<T> : 4 / static_cast<int>(sizeof(T));

/// Elements unit * kUnit ... of a pack: where a whole pack in arithmetic would take many registers.
template <class T>
BORA_HD inline void unpack_unit(const Bits128& bits, int unit, acc_t<T> (&out)[kUnit<T>]) {
  if constexpr (sizeof(T) == 2) {
    detail::widen_pair<T>(bits.v[unit], out[0], out[1]);
  } else if constexpr (sizeof(T) == 4) {
    out[0] = std::bit_cast<float>(bits.v[unit]);
  } else {
    unpack<T>(bits, out);
  }
}

/// The reverse.
template <class T>
BORA_HD inline void pack_unit(const acc_t<T> (&in)[kUnit<T>], int unit, Bits128& bits) {
  if constexpr (sizeof(T) == 2) {
    bits.v[unit] = detail::narrow_pair<T>(in[0], in[1]);
  } else if constexpr (sizeof(T) == 4) {
    bits.v[unit] = std::bit_cast<uint32_t>(in[0]);
  } else {
    std::memcpy(&bits, in, sizeof bits);
  }
}

/// The reverse of unpack, rounded to T.
template <class T>
BORA_HD inline Bits128 pack(const acc_t<T> (&in)[kPack<T>]) {
  Bits128 bits;
  if constexpr (sizeof(T) == 2) {
    BORA_UNROLL
    for (int i = 0; i < 4; ++i) bits.v[i] = detail::narrow_pair<T>(in[2 * i], in[2 * i + 1]);
  } else if constexpr (sizeof(T) == 4) {
    BORA_UNROLL
    for (int i = 0; i < 4; ++i) bits.v[i] = std::bit_cast<uint32_t>(in[i]);
  } else {
    std::memcpy(&bits, in, sizeof bits);
  }
  return bits;
}

/// A pack from memory that may not be aligned, or of which only the first `n` elements are there;
/// the others are 0.  `whole`: aligned and all there (one load).
template <class T>
BORA_HD inline Bits128 load_some(const T* p, int n, bool whole) {
  if (whole) return load_bits(p);
  if constexpr (sizeof(T) == 2) {
    Bits128 bits{};
    BORA_UNROLL
    for (int j = 0; j < kPack<T>; ++j)
      if (j < n) bits.v[j / 2] |= static_cast<uint32_t>(p[j].bits) << (j % 2 * 16);
    return bits;
  } else {
    acc_t<T> v[kPack<T>];
    BORA_UNROLL
    for (int j = 0; j < kPack<T>; ++j) v[j] = j < n ? p[j] : T(0);
    return pack<T>(v);
  }
}

/// The reverse of load_some: only the first `n` elements are written.
template <class T>
BORA_HD inline void store_some(T* p, const Bits128& bits, int n, bool whole) {
  if (whole) return store_bits(p, bits);
  if constexpr (sizeof(T) == 2) {
    BORA_UNROLL
    for (int j = 0; j < kPack<T>; ++j)
      if (j < n) p[j].bits = static_cast<uint16_t>(bits.v[j / 2] >> (j % 2 * 16));
  } else {
    acc_t<T> v[kPack<T>];
    unpack<T>(bits, v);
    BORA_UNROLL
    for (int j = 0; j < kPack<T>; ++j)
      if (j < n) p[j] = v[j];
  }
}

/// f<T>() with the element type of device code.  f64 is built for the emulator alone.
template <class F>
void dispatch_device_float(DType type, const char* what, F&& f) {
  switch (type) {
    case DType::f16:
      return f.template operator()<Half>();
    case DType::bf16:
      return f.template operator()<BFloat16>();
    case DType::f32:
      return f.template operator()<float>();
    case DType::f64:
#if defined(__CUDACC__)
      throw_host_only(what);
#else
      return f.template operator()<double>();
#endif
    default:
      BORA_FAIL(what, ": wants a floating type, got ", type);
  }
}

}  // namespace bora::kernels::cuda
