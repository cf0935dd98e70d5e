// SPDX-License-Identifier: Apache-2.0
// Forward pass of a block of tiles.  For each slab (point along D): 16 matrix products of the
// transformed input with the transformed weights, then the output transform along H and W; the
// transform along D joins the four slabs.  All that a slab touches fits into the caches.
#include "kernels/cpu/winograd_input.hpp"
#include "kernels/cpu/winograd_prefetch.hpp"

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
void multiply_panel(const float* v, const float* u, int64_t channels, int64_t tiles,
                    int64_t vectors, float* m) {
  static const Multiplies table;
  const int64_t most = vectors == 2 ? kRows2 : kRows1;
  const Multiply* rows = vectors == 2 ? table.two : table.one;
  const int64_t groups = (tiles + most - 1) / most, block = tiles * kLanes;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t begin = tiles * g / groups, end = tiles * (g + 1) / groups;
    rows[end - begin](v + begin * kLanes, block, u, channels, m + begin * kLanes, block);
  }
}

/// A^T = | 1 1 1 0 | along W and H: 16 points of m to 4 sums of one tile.
///       | 0 1 -1 -1 |
BORA_LANES_INLINE void output_plane(const float* m, int64_t stride, __m512 out[4]) {
  __m512 s0[4], s1[4];
  for (int i = 0; i < 4; ++i) {
    const float* from = m + 4 * i * stride;
    const __m512 m0 = _mm512_load_ps(from), m1 = _mm512_load_ps(from + stride),
                 m2 = _mm512_load_ps(from + 2 * stride), m3 = _mm512_load_ps(from + 3 * stride);
    s0[i] = _mm512_add_ps(_mm512_add_ps(m0, m1), m2);
    s1[i] = _mm512_sub_ps(_mm512_sub_ps(m1, m2), m3);
  }
  out[0] = _mm512_add_ps(_mm512_add_ps(s0[0], s0[1]), s0[2]);
  out[1] = _mm512_add_ps(_mm512_add_ps(s1[0], s1[1]), s1[2]);
  out[2] = _mm512_sub_ps(_mm512_sub_ps(s0[1], s0[2]), s0[3]);
  out[3] = _mm512_sub_ps(_mm512_sub_ps(s1[1], s1[2]), s1[3]);
}

/// The sums of slabs 0 to 2 wait in kept[slab][4][channel block][tile][16].
void keep_slab(const float* m, int64_t stride, int64_t vectors, float* kept) {
  for (int64_t i = 0; i < vectors; ++i) {
    __m512 out[4];
    output_plane(m + i * kLanes, stride, out);
    for (int k = 0; k < 4; ++k) _mm512_store_ps(kept + (k * vectors + i) * kLanes, out[k]);
  }
}

template <Storage S>
void finish_tiles(const Forward& call, int64_t begin, int64_t tiles, const float* m, int64_t stride,
                  const float* kept) {
  using E = typename Lanes<S>::Element;
  const Shape& s = call.shape;
  const int64_t row = s.out[2] * s.c_out, plane = s.out[1] * row;
  const int64_t vectors = blocks_of(s.c_out) * tiles, slab = 4 * vectors * kLanes;
  for (int64_t t = 0; t < tiles;) {
    const TileRow at = tile_row(s, begin + t, tiles - t);
    E* corner = static_cast<E*>(call.y) + (at.n * s.out[0] + 2 * at.d) * plane + 2 * at.h * row +
                2 * at.w * s.c_out;
    const bool second_d = 2 * at.d + 1 < s.out[0], second_h = 2 * at.h + 1 < s.out[1];
    for (int64_t c = 0; c < s.c_out; c += kLanes) {
      const __mmask16 lanes = lanes_of(s.c_out, c);
      const __m512 bias =
          call.bias ? _mm512_maskz_loadu_ps(lanes, call.bias + c) : _mm512_setzero_ps();
      for (int64_t i = 0; i < at.count; ++i) {
        const int64_t vector = c / kLanes * tiles + t + i;
        __m512 last[4];
        output_plane(m + vector * kLanes, stride, last);
        E* to = corner + 2 * i * s.c_out + c;
        const bool second_w = 2 * (at.w + i) + 1 < s.out[2];
        for (int k = 0; k < 4; ++k) {
          const float* sums = kept + (k * vectors + vector) * kLanes;
          const __m512 k0 = _mm512_load_ps(sums), k1 = _mm512_load_ps(sums + slab),
                       k2 = _mm512_load_ps(sums + 2 * slab);
          if ((k & 1 && !second_w) || (k & 2 && !second_h)) continue;
          E* cell = to + (k & 1 ? s.c_out : 0) + (k & 2 ? row : 0);
          Lanes<S>::store(cell, lanes,
                          _mm512_add_ps(_mm512_add_ps(_mm512_add_ps(k0, k1), k2), bias));
          if (second_d)
            Lanes<S>::store(cell + plane, lanes,
                            _mm512_add_ps(_mm512_sub_ps(_mm512_sub_ps(k1, k2), last[k]), bias));
        }
      }
    }
    t += at.count;
  }
}

template <Storage S>
void forward(const Forward& call, int64_t begin, int64_t tiles, int64_t block, float* scratch) {
  const Shape& s = call.shape;
  const int64_t out_blocks = blocks_of(s.c_out);
  float* v = scratch;
  float* m = v + 16 * point_stride(s.c_in, block);
  float* kept = m + 16 * point_stride(s.c_out, block);
  const int64_t u_point = weight_point_floats(s.c_in, s.c_out);
  constexpr auto kBytes = static_cast<int64_t>(sizeof(typename Lanes<S>::Element));
  const int64_t steps = 64 * ((tiles + block - 1) / block);
  Prefetch input(steps), output(steps);
  input.add_patches(s, call.x, kBytes, begin + tiles, tiles);
  output.add_outputs(s, call.y, kBytes, begin, tiles);
  for (int pd = 0; pd < 4; ++pd) {
    for (int64_t done = 0; done < tiles; done += block) {
      const int64_t n = tiles - done < block ? tiles - done : block;
      const int64_t v_stride = point_stride(s.c_in, n), m_stride = point_stride(s.c_out, n);
      const int64_t vectors = out_blocks * n;
      float* sums = kept + 12 * out_blocks * done * kLanes;
      input_slab<S>(s, call.x, 0, s.c_in, pd, begin + done, n, v);
      for (int p = 0; p < 16; ++p) {
        input.step<false>();
        output.step<true>();
        const float* u = call.u + (pd * 16 + p) * u_point;
        for (int64_t o = 0; o < out_blocks; o += kPanel / kLanes) {
          const int64_t n_o = out_blocks - o < kPanel / kLanes ? out_blocks - o : kPanel / kLanes;
          multiply_panel(v + p * v_stride, u + o * kLanes * s.c_in, s.c_in, n, n_o,
                         m + p * m_stride + o * n * kLanes);
        }
      }
      if (pd < 3) {
        keep_slab(m, m_stride, vectors, sums + pd * 4 * vectors * kLanes);
      } else {
        finish_tiles<S>(call, begin + done, n, m, m_stride, sums);
      }
    }
  }
}

}  // namespace

int64_t forward_scratch_floats(const Shape& s, int64_t tiles, int64_t block) {
  return 16 * (point_stride(s.c_in, block) + point_stride(s.c_out, block)) +
         12 * blocks_of(s.c_out) * tiles * kLanes;
}

void forward_tiles(const Forward& call, int64_t begin, int64_t tiles, int64_t block,
                   float* scratch) {
  switch (call.storage) {
    case Storage::f32:
      return forward<Storage::f32>(call, begin, tiles, block, scratch);
    case Storage::bf16:
      return forward<Storage::bf16>(call, begin, tiles, block, scratch);
    case Storage::f16:
      return forward<Storage::f16>(call, begin, tiles, block, scratch);
  }
}

}  // namespace bora::kernels::cpu::winograd
