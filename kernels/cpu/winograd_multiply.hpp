// SPDX-License-Identifier: Apache-2.0
// The matrix products: rows (tiles, or cells of a 1x1x1 convolution) by channels, and the adjoint.
// Internal linkage, AVX-512.
#pragma once

#include "kernels/cpu/winograd_lanes.hpp"

namespace bora::kernels::cpu::winograd {
namespace {

/// m[tile][NV * 16] = sum over channels of v[tile][channel] u[channel][NV * 16] for R tiles, in
/// registers; channels in their order, so that bits do not depend on R or NV.
template <int R, int NV>
void multiply(const float* v, int64_t v_block, const float* u, int64_t channels, float* m,
              int64_t m_block) {
  __m512 sum[R][NV];
  BORA_UNROLL
  for (int r = 0; r < R; ++r) BORA_UNROLL
  for (int j = 0; j < NV; ++j) sum[r][j] = _mm512_setzero_ps();
  for (; channels > 0; channels -= kLanes, v += v_block) {
    const int64_t n = channels < kLanes ? channels : kLanes;
#pragma GCC unroll 4
    for (int64_t i = 0; i < n; ++i, u += NV * kLanes) {
      __m512 w[NV];
      BORA_UNROLL
      for (int j = 0; j < NV; ++j) w[j] = _mm512_load_ps(u + j * kLanes);
      BORA_UNROLL
      for (int r = 0; r < R; ++r) {
        const __m512 a = _mm512_set1_ps(v[r * kLanes + i]);
        BORA_UNROLL
        for (int j = 0; j < NV; ++j) sum[r][j] = _mm512_fmadd_ps(a, w[j], sum[r][j]);
      }
    }
  }
  BORA_UNROLL
  for (int j = 0; j < NV; ++j) BORA_UNROLL
  for (int r = 0; r < R; ++r) _mm512_store_ps(m + j * m_block + r * kLanes, sum[r][j]);
}

using Multiply = void (*)(const float*, int64_t, const float*, int64_t, float*, int64_t);
constexpr int kRows1 = 16, kRows2 = 14;  // with one and two vectors of output channels

template <int NV, int R>
struct MultiplyTable {
  static void fill(Multiply* table) {
    table[R] = multiply<R, NV>;
    if constexpr (R > 1) MultiplyTable<NV, R - 1>::fill(table);
  }
};
struct Multiplies {
  Multiply one[kRows1 + 1] = {}, two[kRows2 + 1] = {};
  Multiplies() {
    MultiplyTable<1, kRows1>::fill(one);
    MultiplyTable<2, kRows2>::fill(two);
  }
};

/// All tiles of one point and one panel, cut into equal groups.
[[maybe_unused]] void multiply_panel(const float* v, const float* u, int64_t channels,
                                     int64_t tiles, int64_t vectors, float* m) {
  static const Multiplies table;
  const int64_t most = vectors == 2 ? kRows2 : kRows1;
  const Multiply* rows = vectors == 2 ? table.two : table.one;
  const int64_t groups = (tiles + most - 1) / most, block = tiles * kLanes;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t begin = tiles * g / groups, end = tiles * (g + 1) / groups;
    rows[end - begin](v + begin * kLanes, block, u, channels, m + begin * kLanes, block);
  }
}

/// du[R][NV blocks apart][16] += sum over tiles of v[tile][R] z[tile][NV * 16], in registers;
/// first: du is overwritten.
template <int R, int NV>
void accumulate(const float* v, const float* z, int64_t z_block, int64_t tiles, bool first,
                float* du) {
  constexpr int64_t kBlock = kLanes * kLanes;
  __m512 sum[R][NV];
  BORA_UNROLL
  for (int r = 0; r < R; ++r) BORA_UNROLL
  for (int j = 0; j < NV; ++j)
    sum[r][j] = first ? _mm512_setzero_ps() : _mm512_load_ps(du + j * kBlock + r * kLanes);
#pragma GCC unroll 2
  for (int64_t t = 0; t < tiles; ++t) {
    __m512 b[NV];
    BORA_UNROLL
    for (int j = 0; j < NV; ++j) b[j] = _mm512_load_ps(z + j * z_block + t * kLanes);
    BORA_UNROLL
    for (int r = 0; r < R; ++r) {
      const __m512 a = _mm512_set1_ps(v[t * kLanes + r]);
      BORA_UNROLL
      for (int j = 0; j < NV; ++j) sum[r][j] = _mm512_fmadd_ps(a, b[j], sum[r][j]);
    }
  }
  BORA_UNROLL
  for (int r = 0; r < R; ++r) BORA_UNROLL
  for (int j = 0; j < NV; ++j) _mm512_store_ps(du + j * kBlock + r * kLanes, sum[r][j]);
}

/// One point: all pairs of channels.
[[maybe_unused]] void accumulate_point(const float* v, const float* z, const Channels& c,
                                       int64_t tiles, bool first, float* du) {
  const int64_t out_blocks = blocks_of(c.n_out), block = tiles * kLanes;
  for (int64_t i = 0; i < c.n_in; i += kLanes) {
    const int64_t rows = c.n_in - i < kLanes ? c.n_in - i : kLanes;
    const float* vi = v + i / kLanes * block;
    float* di = du + i * out_blocks * kLanes;
    int64_t o = 0;
    for (; o + 2 <= out_blocks; o += 2)
      for (int64_t r = 0; r < rows; r += 8)
        accumulate<8, 2>(vi + r, z + o * block, block, tiles, first,
                         di + o * kLanes * kLanes + r * kLanes);
    if (o < out_blocks) {
      float* to = di + o * kLanes * kLanes;
      if (rows > 8) {
        accumulate<16, 1>(vi, z + o * block, block, tiles, first, to);
      } else {
        accumulate<8, 1>(vi, z + o * block, block, tiles, first, to);
      }
    }
  }
}

}  // namespace
}  // namespace bora::kernels::cpu::winograd
