// SPDX-License-Identifier: Apache-2.0
// The input transform B^T of a block of tiles, one slab (point along D) at a time:
// v[point][channel block][tile][16], points (H, W) of the slab.  Internal linkage, AVX-512.
//
//        | 1  0 -1  0 |
//  B^T = | 0  1  1  0 |
//        | 0 -1  1  0 |
//        | 0  1  0 -1 |
#pragma once

#include "kernels/cpu/winograd_lanes.hpp"

namespace bora::kernels::cpu::winograd {
namespace {

/// Rows of the two input planes that a slab combines: first +- second.  Rows outside the input have
/// an empty mask.  kWhole below: none is, and all are `row` apart.
template <class E>
struct PatchRows {
  const E* first[4];
  const E* second[4];
  __mmask16 first_mask[4], second_mask[4];
  int64_t row;
};

/// One column of a patch along H: combined along D, transformed along H.
template <Storage S, bool kAdd, bool kWhole, class E>
BORA_LANES_INLINE void patch_column(const PatchRows<E>& rows, int64_t offset, __m512 q[4]) {
  __m512 c[4];
  BORA_UNROLL
  for (int r = 0; r < 4; ++r) {
    const __m512 a = kWhole ? Lanes<S>::load(rows.first[0] + offset + r * rows.row)
                            : Lanes<S>::load(rows.first[r] + offset, rows.first_mask[r]);
    const __m512 b = kWhole ? Lanes<S>::load(rows.second[0] + offset + r * rows.row)
                            : Lanes<S>::load(rows.second[r] + offset, rows.second_mask[r]);
    c[r] = kAdd ? _mm512_add_ps(a, b) : _mm512_sub_ps(a, b);
  }
  q[0] = _mm512_sub_ps(c[0], c[2]);
  q[1] = _mm512_add_ps(c[1], c[2]);
  q[2] = _mm512_sub_ps(c[2], c[1]);
  q[3] = _mm512_sub_ps(c[1], c[3]);
}

/// `count` tiles along W of one channel block; w0: the first column of the first patch.  Each tile
/// takes over two columns from its left neighbour.
template <Storage S, bool kAdd, bool kWhole, class E>
__attribute__((noinline)) void input_row(const PatchRows<E>& patch, int64_t w0, int64_t width,
                                         int64_t channels, int64_t count, int64_t stride,
                                         float* v) {
  const PatchRows<E> rows = patch;  // in registers: stores to v cannot change it
  const auto column = [&](int64_t w, __m512 q[4]) __attribute__((always_inline)) {
    if (w >= 0 && w < width) {
      patch_column<S, kAdd, kWhole>(rows, w * channels, q);
    } else {
      for (int i = 0; i < 4; ++i) q[i] = _mm512_setzero_ps();
    }
  };
  __m512 q0[4], q1[4], q2[4], q3[4];
  column(w0, q0);
  column(w0 + 1, q1);
  for (int64_t t = 0; t < count; ++t, v += kLanes) {
    column(w0 + 2 * t + 2, q2);
    column(w0 + 2 * t + 3, q3);
    BORA_UNROLL
    for (int i = 0; i < 4; ++i) {
      float* to = v + 4 * i * stride;
      _mm512_store_ps(to, _mm512_sub_ps(q0[i], q2[i]));
      _mm512_store_ps(to + stride, _mm512_add_ps(q1[i], q2[i]));
      _mm512_store_ps(to + 2 * stride, _mm512_sub_ps(q2[i], q1[i]));
      _mm512_store_ps(to + 3 * stride, _mm512_sub_ps(q1[i], q3[i]));
      q0[i] = q2[i];
      q1[i] = q3[i];
    }
  }
}

/// Slab `pd` of tiles [begin, begin + tiles), channels [c0, c0 + n_c) of x.
template <Storage S>
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
    const int64_t h0 = 2 * at.h - s.pad[1], w0 = 2 * at.w - s.pad[2];
    const bool in1 = d1 >= 0 && d1 < s.in[0], in2 = d2 >= 0 && d2 < s.in[0];
    const bool inside = in1 && in2 && h0 >= 0 && h0 + 4 <= s.in[1];
    for (int64_t c = 0; c < n_c; c += kLanes) {
      const __mmask16 lanes = lanes_of(n_c, c);
      PatchRows<E> rows;
      rows.row = row;
      for (int r = 0; r < 4; ++r) {
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
          input_row<S, true, true>(rows, w0, s.in[2], s.c_in, at.count, stride, to);
        else
          input_row<S, true, false>(rows, w0, s.in[2], s.c_in, at.count, stride, to);
      } else {
        if (whole)
          input_row<S, false, true>(rows, w0, s.in[2], s.c_in, at.count, stride, to);
        else
          input_row<S, false, false>(rows, w0, s.in[2], s.c_in, at.count, stride, to);
      }
    }
    t += at.count;
  }
}

}  // namespace
}  // namespace bora::kernels::cpu::winograd
