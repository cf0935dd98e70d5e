// SPDX-License-Identifier: Apache-2.0
// The input transform B^T of a block of tiles, one slab (point along D) at a time:
// v[point][channel block][tile][16], points (H, W) of the slab.  Internal linkage, AVX-512.
#pragma once

#include "kernels/cpu/winograd_axis.hpp"

namespace bora::kernels::cpu::winograd {
namespace {

/// Rows of the two input planes that a slab combines: first +- second.  Rows outside the input have
/// an empty mask.  kWhole below: none is, and all are `row` apart.
template <class E>
struct PatchRows {
  const E* first[6];
  const E* second[6];
  __mmask16 first_mask[6], second_mask[6];
  int64_t row;
};

/// One column of a patch along H: combined along D, transformed along H.
template <Storage S, bool kAdd, bool kWhole, int TH, class E>
BORA_LANES_INLINE void patch_column(const PatchRows<E>& rows, int64_t offset, __m512 q[TH + 2]) {
  __m512 c[TH + 2];
  BORA_UNROLL
  for (int r = 0; r < TH + 2; ++r) {
    const __m512 a = kWhole ? Lanes<S>::load(rows.first[0] + offset + r * rows.row)
                            : Lanes<S>::load(rows.first[r] + offset, rows.first_mask[r]);
    const __m512 b = kWhole ? Lanes<S>::load(rows.second[0] + offset + r * rows.row)
                            : Lanes<S>::load(rows.second[r] + offset, rows.second_mask[r]);
    c[r] = kAdd ? add(a, b) : sub(a, b);
  }
  input_axis<TH>(c, q);
}

/// `count` tiles along W of one channel block; w0: the first column of the first patch.  Each tile
/// takes over two columns from its left neighbour.
template <Storage S, bool kAdd, bool kWhole, int TH, int TW, class E>
__attribute__((noinline)) void input_row(const PatchRows<E>& patch, int64_t w0, int64_t width,
                                         int64_t channels, int64_t count, int64_t stride,
                                         float* v) {
  const PatchRows<E> rows = patch;  // in registers: stores to v cannot change it
  const auto column = [&](int64_t w, __m512 q[TH + 2]) __attribute__((always_inline)) {
    if (w >= 0 && w < width) {
      patch_column<S, kAdd, kWhole, TH>(rows, w * channels, q);
    } else {
      BORA_UNROLL
      for (int i = 0; i < TH + 2; ++i) q[i] = _mm512_setzero_ps();
    }
  };
  __m512 q[TW + 2][TH + 2];
  column(w0, q[0]);
  column(w0 + 1, q[1]);
  for (int64_t t = 0; t < count; ++t, v += kLanes) {
    BORA_UNROLL
    for (int j = 2; j < TW + 2; ++j) column(w0 + TW * t + j, q[j]);
    BORA_UNROLL
    for (int i = 0; i < TH + 2; ++i) {
      __m512 d[TW + 2], out[TW + 2];
      BORA_UNROLL
      for (int j = 0; j < TW + 2; ++j) d[j] = q[j][i];
      input_axis<TW>(d, out);
      float* to = v + (TW + 2) * i * stride;
      BORA_UNROLL
      for (int j = 0; j < TW + 2; ++j) _mm512_store_ps(to + j * stride, out[j]);
      q[0][i] = d[TW];
      q[1][i] = d[TW + 1];
    }
  }
}

/// Slab `pd` of tiles [begin, begin + tiles), channels [c0, c0 + n_c) of x.
template <Storage S, int TH, int TW>
void input_slab(const Shape& s, const void* x, int64_t c0, int64_t n_c, int pd, int64_t begin,
                int64_t tiles, float* v) {
  using E = typename Lanes<S>::Element;
  constexpr int kFirst[4] = {0, 1, 2, 1}, kSecond[4] = {2, 2, 1, 3};
  const int64_t row = s.in[2] * s.c_in, plane = s.in[1] * row;
  const int64_t stride = point_stride(n_c, tiles);
  for (int64_t t = 0; t < tiles;) {
    const TileRow at = tile_row(s, begin + t, tiles - t);
    const E* sample = static_cast<const E*>(x) + at.n * s.in[0] * plane + c0;
    const int64_t d1 = 2 * at.d - s.pad[0] + kFirst[pd], d2 = 2 * at.d - s.pad[0] + kSecond[pd];
    const int64_t h0 = TH * at.h - s.pad[1], w0 = TW * at.w - s.pad[2];
    const bool in1 = d1 >= 0 && d1 < s.in[0], in2 = d2 >= 0 && d2 < s.in[0];
    const bool inside = in1 && in2 && h0 >= 0 && h0 + TH + 2 <= s.in[1];
    for (int64_t c = 0; c < n_c; c += kLanes) {
      const __mmask16 lanes = lanes_of(n_c, c);
      PatchRows<E> rows;
      rows.row = row;
      for (int r = 0; r < TH + 2; ++r) {
        const int64_t h = h0 + r;
        const bool in = h >= 0 && h < s.in[1];
        const bool use1 = in && in1, use2 = in && in2;
        rows.first[r] = sample + c + (use1 ? d1 * plane + h * row : 0);
        rows.second[r] = sample + c + (use2 ? d2 * plane + h * row : 0);
        rows.first_mask[r] = use1 ? lanes : __mmask16{0};
        rows.second_mask[r] = use2 ? lanes : __mmask16{0};
      }
      float* to = v + (c / kLanes * tiles + t) * kLanes;
      const bool whole = inside && lanes == 0xffff;
      if (pd == 1) {
        if (whole)
          input_row<S, true, true, TH, TW>(rows, w0, s.in[2], s.c_in, at.count, stride, to);
        else
          input_row<S, true, false, TH, TW>(rows, w0, s.in[2], s.c_in, at.count, stride, to);
      } else {
        if (whole)
          input_row<S, false, true, TH, TW>(rows, w0, s.in[2], s.c_in, at.count, stride, to);
        else
          input_row<S, false, false, TH, TW>(rows, w0, s.in[2], s.c_in, at.count, stride, to);
      }
    }
    t += at.count;
  }
}

}  // namespace
}  // namespace bora::kernels::cpu::winograd
