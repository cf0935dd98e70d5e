// SPDX-License-Identifier: Apache-2.0
// Sixteen channels in a register, and walking over tiles.  Only for the winograd_*.cpp files that
// are compiled for AVX-512; all names have internal linkage.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/winograd_kernels.hpp"

namespace bora::kernels::cpu::winograd {
namespace {

#define BORA_LANES_INLINE inline __attribute__((always_inline))
/// Before loops over arrays of registers: else g++ zeroes or copies them in memory first.
#define BORA_UNROLL _Pragma("GCC unroll 32")

/// Loads and stores of the first lanes of a vector (those of `mask`); absent lanes read as 0.
template <Storage S>
struct Lanes;

template <>
struct Lanes<Storage::f32> {
  using Element = float;
  static BORA_LANES_INLINE __m512 load(const float* p) { return _mm512_loadu_ps(p); }
  static BORA_LANES_INLINE __m512 load(const float* p, __mmask16 mask) {
    return _mm512_maskz_loadu_ps(mask, p);
  }
  static BORA_LANES_INLINE void store(float* p, __mmask16 mask, __m512 v) {
    _mm512_mask_storeu_ps(p, mask, v);
  }
};

template <>
struct Lanes<Storage::bf16> {
  using Element = uint16_t;
  static BORA_LANES_INLINE __m512 widen(__m256i bits) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  static BORA_LANES_INLINE __m512 load(const uint16_t* p) {
    return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static BORA_LANES_INLINE __m512 load(const uint16_t* p, __mmask16 mask) {
    return widen(_mm256_maskz_loadu_epi16(mask, p));
  }
  /// To nearest even; NaN becomes the quiet NaN of its upper half (as core/half.hpp).
  static BORA_LANES_INLINE void store(uint16_t* p, __mmask16 mask, __m512 v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i upper = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_srli_epi32(
        _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i result = _mm512_mask_or_epi32(rounded, nan, upper, _mm512_set1_epi32(0x40));
    _mm256_mask_storeu_epi16(p, mask, _mm512_cvtepi32_epi16(result));
  }
};

template <>
struct Lanes<Storage::f16> {
  using Element = uint16_t;
  static BORA_LANES_INLINE __m512 load(const uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static BORA_LANES_INLINE __m512 load(const uint16_t* p, __mmask16 mask) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, p));
  }
  static BORA_LANES_INLINE void store(uint16_t* p, __mmask16 mask, __m512 v) {
    _mm256_mask_storeu_epi16(p, mask, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
};

BORA_LANES_INLINE int64_t blocks_of(int64_t channels) { return (channels + kLanes - 1) / kLanes; }

/// The lanes of a vector of channels from `first` on, of `channels` in all.
BORA_LANES_INLINE __mmask16 lanes_of(int64_t channels, int64_t first) {
  const int64_t n = channels - first;
  return static_cast<__mmask16>(n >= kLanes ? 0xffff : (1 << n) - 1);
}

/// Where tile `index` lies, and how many tiles of the same row along W follow it within `limit`.
struct TileRow {
  int64_t n, d, h, w, count;
};
BORA_LANES_INLINE int64_t tiles_along(const Shape& s, int axis) {
  return (s.out[axis] + s.tile[axis] - 1) / s.tile[axis];
}
BORA_LANES_INLINE TileRow tile_row(const Shape& s, int64_t index, int64_t limit) {
  const int64_t nd = tiles_along(s, 0), nh = tiles_along(s, 1), nw = tiles_along(s, 2);
  TileRow r;
  r.w = index % nw;
  r.h = index / nw % nh;
  r.d = index / (nw * nh) % nd;
  r.n = index / (nw * nh * nd);
  r.count = nw - r.w < limit ? nw - r.w : limit;
  return r;
}

/// Scratch of one slab, the points along H and W of one point along D: floats between points.  A
/// line more than the data, so that the points do not fall into the same set of the cache.
BORA_LANES_INLINE int64_t point_stride(int64_t channels, int64_t tiles) {
  return blocks_of(channels) * tiles * kLanes + kLanes;
}

}  // namespace
}  // namespace bora::kernels::cpu::winograd
