// SPDX-License-Identifier: Apache-2.0
// Transformed weights U = G w along D, H and W, as u[point][panel of output channels][input
// channel][channel of the panel].
#include "kernels/cpu/winograd_axis.hpp"

namespace bora::kernels::cpu::winograd {
namespace {

/// 27 taps of 16 output channels to all points.
template <int TH, int TW>
void transform_taps(const __m512 w[27], float* u, int64_t point) {
  constexpr int kH = TH + 2, kW = TW + 2;
  __m512 plane[9][kW];  // [kD kH][W]
  for (int i = 0; i < 9; ++i) weight_axis<TW>(w + 3 * i, plane[i]);
  __m512 slab[3][kH][kW];  // [kD][H][W]
  for (int d = 0; d < 3; ++d)
    for (int k = 0; k < kW; ++k) {
      const __m512 in[3] = {plane[3 * d][k], plane[3 * d + 1][k], plane[3 * d + 2][k]};
      __m512 out[kH];
      weight_axis<TH>(in, out);
      for (int h = 0; h < kH; ++h) slab[d][h][k] = out[h];
    }
  for (int h = 0; h < kH; ++h)
    for (int k = 0; k < kW; ++k) {
      const __m512 in[3] = {slab[0][h][k], slab[1][h][k], slab[2][h][k]};
      __m512 out[4];
      weight_axis<2>(in, out);
      for (int d = 0; d < 4; ++d) _mm512_store_ps(u + ((d * kH + h) * kW + k) * point, out[d]);
    }
}

/// rows[j] lane i becomes rows[i] lane j.
BORA_LANES_INLINE void transpose(__m512 rows[16]) {
  __m512 a[16];
  BORA_UNROLL
  for (int i = 0; i < 8; ++i) {  // pairs of rows
    a[2 * i] = _mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
    a[2 * i + 1] = _mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
  }
  BORA_UNROLL
  for (int i = 0; i < 4; ++i) {  // fours of rows: lane group g of b[4 i + c] holds column 4 g + c
    const auto pd = [](__m512 v) { return _mm512_castps_pd(v); };
    rows[4 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(pd(a[4 * i]), pd(a[4 * i + 2])));
    rows[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(pd(a[4 * i]), pd(a[4 * i + 2])));
    rows[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(pd(a[4 * i + 1]), pd(a[4 * i + 3])));
    rows[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(pd(a[4 * i + 1]), pd(a[4 * i + 3])));
  }
  BORA_UNROLL
  for (int c = 0; c < 4; ++c) {  // a 4x4 transpose of lane groups
    const __m512 lo = _mm512_shuffle_f32x4(rows[c], rows[4 + c], 0x88),
                 hi = _mm512_shuffle_f32x4(rows[c], rows[4 + c], 0xdd),
                 lo2 = _mm512_shuffle_f32x4(rows[8 + c], rows[12 + c], 0x88),
                 hi2 = _mm512_shuffle_f32x4(rows[8 + c], rows[12 + c], 0xdd);
    a[c] = _mm512_shuffle_f32x4(lo, lo2, 0x88);
    a[8 + c] = _mm512_shuffle_f32x4(lo, lo2, 0xdd);
    a[4 + c] = _mm512_shuffle_f32x4(hi, hi2, 0x88);
    a[12 + c] = _mm512_shuffle_f32x4(hi, hi2, 0xdd);
  }
  BORA_UNROLL
  for (int i = 0; i < 16; ++i) rows[i] = a[i];
}

/// Taps of 16 input and 16 output channels, out[tap][input][output], absent ones 0.
void gather_taps(const float* w, bool flipped, int64_t c_in, int64_t c_out, int64_t i0, int64_t o0,
                 float (*out)[kLanes][kLanes]) {
  const int64_t n_i = c_in - i0 < kLanes ? c_in - i0 : kLanes;
  const int64_t n_o = c_out - o0 < kLanes ? c_out - o0 : kLanes;
  const __mmask16 inputs = lanes_of(c_in, i0), outputs = lanes_of(c_out, o0);
  for (int64_t k = 0; k < 27; ++k) {
    if (flipped) {
      for (int64_t i = 0; i < n_i; ++i)
        _mm512_store_ps(out[k][i],
                        _mm512_maskz_loadu_ps(outputs, w + ((i0 + i) * 27 + 26 - k) * c_out + o0));
      continue;
    }
    __m512 rows[16];
    BORA_UNROLL
    for (int64_t o = 0; o < 16; ++o)
      rows[o] = _mm512_maskz_loadu_ps(o < n_o ? inputs : __mmask16{0},
                                      w + ((o < n_o ? o0 + o : o0) * 27 + k) * c_in + i0);
    transpose(rows);
    BORA_UNROLL
    for (int64_t i = 0; i < 16; ++i) _mm512_store_ps(out[k][i], rows[i]);
  }
}

}  // namespace

int64_t weight_point_floats(int64_t c_in, int64_t c_out) {
  return c_in * blocks_of(c_out) * kLanes + kLanes;
}

void transform_weights(const float* w, bool flipped, const Shape& s, int64_t begin, int64_t end,
                       float* u) {
  const int64_t c_in = s.c_in, c_out = s.c_out;
  const auto transform = s.tile[1] == 4   ? transform_taps<4, 4>
                         : s.tile[2] == 4 ? transform_taps<2, 4>
                                          : transform_taps<2, 2>;
  const int64_t blocks = blocks_of(c_out), point = weight_point_floats(c_in, c_out);
  alignas(64) float taps[27][kLanes][kLanes];
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t panel = block / 2 * 2, in_panel = blocks - panel < 2 ? 1 : 2;
    float* to = u + panel * kLanes * c_in + (block - panel) * kLanes;
    for (int64_t i0 = begin; i0 < end; i0 += kLanes) {
      gather_taps(w, flipped, c_in, c_out, i0, block * kLanes, taps);
      for (int64_t i = i0; i < end && i < i0 + kLanes; ++i) {
        __m512 w27[27];
        BORA_UNROLL
        for (int k = 0; k < 27; ++k) w27[k] = _mm512_load_ps(taps[k][i - i0]);
        transform(w27, to + i * in_panel * kLanes, point);
      }
    }
  }
}

}  // namespace bora::kernels::cpu::winograd
