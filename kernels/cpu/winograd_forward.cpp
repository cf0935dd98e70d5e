// SPDX-License-Identifier: Apache-2.0
// Forward pass of a block of tiles.  For each slab (point along D): the matrix products of the
// transformed input with the transformed weights, then the output transform along H and W; the
// transform along D joins the four slabs.  All that a slab touches fits into the caches.
#include "kernels/cpu/winograd_input.hpp"
#include "kernels/cpu/winograd_multiply.hpp"
#include "kernels/cpu/winograd_prefetch.hpp"

namespace bora::kernels::cpu::winograd {
namespace {

/// A^T along W and H: the points of a slab to TH x TW sums of one tile.
template <int TH, int TW>
BORA_LANES_INLINE void output_plane(const float* m, int64_t stride, __m512 out[TH * TW]) {
  __m512 sums[TW][TH + 2];
  BORA_UNROLL
  for (int i = 0; i < TH + 2; ++i) {
    __m512 in[TW + 2], row[TW];
    BORA_UNROLL
    for (int j = 0; j < TW + 2; ++j) in[j] = _mm512_load_ps(m + ((TW + 2) * i + j) * stride);
    output_axis<TW>(in, row);
    BORA_UNROLL
    for (int j = 0; j < TW; ++j) sums[j][i] = row[j];
  }
  BORA_UNROLL
  for (int j = 0; j < TW; ++j) {
    __m512 column[TH];
    output_axis<TH>(sums[j], column);
    BORA_UNROLL
    for (int i = 0; i < TH; ++i) out[i * TW + j] = column[i];
  }
}

/// The sums of slabs 0 to 2 wait in kept[slab][TH TW][channel block][tile][16].
template <int TH, int TW>
void keep_slab(const float* m, int64_t stride, int64_t vectors, float* kept) {
  for (int64_t i = 0; i < vectors; ++i) {
    __m512 out[TH * TW];
    output_plane<TH, TW>(m + i * kLanes, stride, out);
    BORA_UNROLL
    for (int k = 0; k < TH * TW; ++k) _mm512_store_ps(kept + (k * vectors + i) * kLanes, out[k]);
  }
}

template <Storage S, int TH, int TW>
void finish_tiles(const Forward& call, int64_t begin, int64_t tiles, const float* m, int64_t stride,
                  const float* kept) {
  using E = typename Lanes<S>::Element;
  const Shape& s = call.shape;
  const int64_t row = s.out[2] * s.c_out, plane = s.out[1] * row;
  constexpr int kCells = TH * TW;
  const int64_t vectors = blocks_of(s.c_out) * tiles, slab = kCells * vectors * kLanes;
  for (int64_t t = 0; t < tiles;) {
    const TileRow at = tile_row(s, begin + t, tiles - t);
    E* corner = static_cast<E*>(call.y) + (at.n * s.out[0] + 2 * at.d) * plane + TH * at.h * row +
                TW * at.w * s.c_out;
    const bool second_d = 2 * at.d + 1 < s.out[0];
    const int64_t rows = s.out[1] - TH * at.h;
    for (int64_t c = 0; c < s.c_out; c += kLanes) {
      const __mmask16 lanes = lanes_of(s.c_out, c);
      const __m512 bias =
          call.bias ? _mm512_maskz_loadu_ps(lanes, call.bias + c) : _mm512_setzero_ps();
      for (int64_t i = 0; i < at.count; ++i) {
        const int64_t vector = c / kLanes * tiles + t + i;
        __m512 last[kCells];
        output_plane<TH, TW>(m + vector * kLanes, stride, last);
        E* to = corner + TW * i * s.c_out + c;
        const int64_t columns = s.out[2] - TW * (at.w + i);
        BORA_UNROLL
        for (int k = 0; k < kCells; ++k) {
          if (k / TW >= rows || k % TW >= columns) continue;
          const float* sums = kept + (k * vectors + vector) * kLanes;
          const __m512 in[4] = {_mm512_load_ps(sums), _mm512_load_ps(sums + slab),
                                _mm512_load_ps(sums + 2 * slab), last[k]};
          __m512 out[2];
          output_axis<2>(in, out);
          E* cell = to + k % TW * s.c_out + k / TW * row;
          Lanes<S>::store(cell, lanes, add(out[0], bias));
          if (second_d) Lanes<S>::store(cell + plane, lanes, add(out[1], bias));
        }
      }
    }
    t += at.count;
  }
}

template <Storage S, int TH, int TW>
void forward(const Forward& call, int64_t begin, int64_t tiles, int64_t block, float* scratch) {
  const Shape& s = call.shape;
  const int64_t out_blocks = blocks_of(s.c_out);
  constexpr int kPoints = (TH + 2) * (TW + 2), kCells = TH * TW;
  float* v = scratch;
  float* m = v + kPoints * point_stride(s.c_in, block);
  float* kept = m + kPoints * point_stride(s.c_out, block);
  const int64_t u_point = weight_point_floats(s.c_in, s.c_out);
  constexpr auto kBytes = static_cast<int64_t>(sizeof(typename Lanes<S>::Element));
  const int64_t steps = 4 * kPoints * ((tiles + block - 1) / block);
  Prefetch input(steps), output(steps);
  input.add_patches(s, call.x, kBytes, begin + tiles, tiles);
  output.add_outputs(s, call.y, kBytes, begin, tiles);
  for (int pd = 0; pd < 4; ++pd) {
    for (int64_t done = 0; done < tiles; done += block) {
      const int64_t n = tiles - done < block ? tiles - done : block;
      const int64_t v_stride = point_stride(s.c_in, n), m_stride = point_stride(s.c_out, n);
      const int64_t vectors = out_blocks * n;
      float* sums = kept + 3 * kCells * out_blocks * done * kLanes;
      input_slab<S, TH, TW>(s, call.x, 0, s.c_in, pd, begin + done, n, v);
      for (int p = 0; p < kPoints; ++p) {
        input.step<false>();
        output.step<true>();
        const float* u = call.u + (pd * kPoints + p) * u_point;
        for (int64_t o = 0; o < out_blocks; o += kPanel / kLanes) {
          const int64_t n_o = out_blocks - o < kPanel / kLanes ? out_blocks - o : kPanel / kLanes;
          multiply_panel(v + p * v_stride, u + o * kLanes * s.c_in, s.c_in, n, n_o,
                         m + p * m_stride + o * n * kLanes);
        }
      }
      if (pd < 3) {
        keep_slab<TH, TW>(m, m_stride, vectors, sums + pd * kCells * vectors * kLanes);
      } else {
        finish_tiles<S, TH, TW>(call, begin + done, n, m, m_stride, sums);
      }
    }
  }
}

template <Storage S>
void forward_of(const Forward& call, int64_t begin, int64_t tiles, int64_t block, float* scratch) {
  if (call.shape.tile[1] == 4) return forward<S, 4, 4>(call, begin, tiles, block, scratch);
  if (call.shape.tile[2] == 4) return forward<S, 2, 4>(call, begin, tiles, block, scratch);
  return forward<S, 2, 2>(call, begin, tiles, block, scratch);
}

}  // namespace

int64_t forward_scratch_floats(const Shape& s, int64_t tiles, int64_t block) {
  const int64_t points = (s.tile[1] + 2) * (s.tile[2] + 2), cells = s.tile[1] * s.tile[2];
  return points * (point_stride(s.c_in, block) + point_stride(s.c_out, block)) +
         3 * cells * blocks_of(s.c_out) * tiles * kLanes;
}

void forward_tiles(const Forward& call, int64_t begin, int64_t tiles, int64_t block,
                   float* scratch) {
  switch (call.storage) {
    case Storage::f32:
      return forward_of<Storage::f32>(call, begin, tiles, block, scratch);
    case Storage::bf16:
      return forward_of<Storage::bf16>(call, begin, tiles, block, scratch);
    case Storage::f16:
      return forward_of<Storage::f16>(call, begin, tiles, block, scratch);
  }
}

}  // namespace bora::kernels::cpu::winograd
