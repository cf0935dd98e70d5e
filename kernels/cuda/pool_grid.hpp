// SPDX-License-Identifier: Apache-2.0
// Places of cells and of 2x2x2 windows of a volume batch, by multiplications instead of divisions.
#pragma once

#include "core/shape.hpp"
#include "kernels/cuda/fast_divide.hpp"
#include "kernels/cuda/vector.hpp"

namespace bora::kernels::cuda {

/// A cell (or window): sample and coordinates.
struct Cell32 {
  uint32_t n, d, h, w;
};

/// An (N, D, H, W) grid of fewer than 2^31 cells.
struct Grid32 {
  FastDivide d, h, w;

  explicit Grid32(Dims3 extent) : d(extent.d), h(extent.h), w(extent.w) {}
  static bool fits(int64_t n, Dims3 extent) { return n * extent.count() < (int64_t{1} << 31); }

  BORA_HD Cell32 cell(uint32_t number) const {
    Cell32 c{};
    c.w = number;
    c.h = w.split(c.w);
    c.d = h.split(c.h);
    c.n = d.split(c.d);
    return c;
  }
  BORA_HD uint32_t number(uint32_t n, uint32_t z, uint32_t y, uint32_t x) const {
    return ((n * d.divisor + z) * h.divisor + y) * w.divisor + x;
  }
};

/// V winners as they lie in memory: one u8 each.
template <int V>
struct Winners {
  uint32_t word[(V + 3) / 4] = {};

  BORA_HD void set(int j, uint32_t place) { word[j / 4] |= place << (j % 4 * 8); }
  BORA_HD uint32_t get(int j) const { return (word[j / 4] >> (j % 4 * 8)) & 0xffu; }
  BORA_HD void load(const uint8_t* p) {
#if defined(__CUDA_ARCH__)
    if constexpr (V == 8) {
      const uint2 u = *reinterpret_cast<const uint2*>(p);
      word[0] = u.x;
      word[1] = u.y;
    } else {
      static_assert(V == 4);
      word[0] = *reinterpret_cast<const uint32_t*>(p);
    }
#else
    std::memcpy(word, p, V);
#endif
  }
  BORA_HD void store(uint8_t* p) const {
#if defined(__CUDA_ARCH__)
    if constexpr (V == 8) {
      *reinterpret_cast<uint2*>(p) = make_uint2(word[0], word[1]);
    } else {
      static_assert(V == 4);
      *reinterpret_cast<uint32_t*>(p) = word[0];
    }
#else
    std::memcpy(p, word, V);
#endif
  }
};

/// NaN beats all numbers, the first of equals stays: as kernels/pool3d.cpp.
template <class A>
BORA_HD bool beats(A challenger, A best) {
  return !(challenger <= best) && best == best;
}

/// Whether 8 (or 4, 2) winners may be moved at once from `p` on.
template <int V>
bool winners_aligned(const uint8_t* p) {
  return reinterpret_cast<uintptr_t>(p) % V == 0;
}

}  // namespace bora::kernels::cuda
