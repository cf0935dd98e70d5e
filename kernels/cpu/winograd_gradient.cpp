// SPDX-License-Identifier: Apache-2.0
// Weight gradient of a run of tiles, the adjoint of the forward pass with respect to the weights:
// with V = B^T x B and Z = A dy A^T of every tile, dU[point] += V[point]^T Z[point] over the tiles,
// then dw = G^T dU G.
#include "kernels/cpu/winograd_input.hpp"
#include "kernels/cpu/winograd_prefetch.hpp"

namespace bora::kernels::cpu::winograd {
namespace {

/// A without the sign of its last row, which output_weights() puts right:
/// y0, y0 + y1, y0 - y1, y1.
BORA_LANES_INLINE void a_transform(__m512 y0, __m512 y1, __m512 out[4]) {
  out[0] = y0;
  out[1] = _mm512_add_ps(y0, y1);
  out[2] = _mm512_sub_ps(y0, y1);
  out[3] = y1;
}

/// Slab `pd` of Z: z[point][channel block][tile][16] of channels [c0, c0 + n_c) of dy.
template <Storage S>
void gradient_slab(const Shape& s, const void* dy, int64_t c0, int64_t n_c, int pd, int64_t begin,
                   int64_t tiles, float* z) {
  using E = typename Lanes<S>::Element;
  const int64_t row = s.out[2] * s.c_out, plane = s.out[1] * row;
  const int64_t stride = point_stride(n_c, tiles);
  for (int64_t t = 0; t < tiles;) {
    const TileRow at = tile_row(s, begin + t, tiles - t);
    const E* corner = static_cast<const E*>(dy) + (at.n * s.out[0] + 2 * at.d) * plane +
                      2 * at.h * row + 2 * at.w * s.c_out + c0;
    const bool second_d = 2 * at.d + 1 < s.out[0], second_h = 2 * at.h + 1 < s.out[1];
    for (int64_t c = 0; c < n_c; c += kLanes) {
      const __mmask16 lanes = lanes_of(n_c, c);
      float* to = z + (c / kLanes * tiles + t) * kLanes;
      for (int64_t i = 0; i < at.count; ++i, to += kLanes) {
        const E* from = corner + c + 2 * i * s.c_out;
        const bool second_w = 2 * (at.w + i) + 1 < s.out[2];
        __m512 y[4];  // [H][W], combined along D
        for (int k = 0; k < 4; ++k) {
          const bool in = (second_w || !(k & 1)) && (second_h || !(k & 2));
          const E* cell = from + (in ? (k & 1 ? s.c_out : 0) + (k & 2 ? row : 0) : 0);
          const __m512 y0 = Lanes<S>::load(cell, in && pd != 3 ? lanes : __mmask16{0});
          const bool in1 = in && second_d && pd != 0;
          const __m512 y1 = Lanes<S>::load(cell + (in1 ? plane : 0), in1 ? lanes : __mmask16{0});
          y[k] = pd == 2 ? _mm512_sub_ps(y0, y1) : _mm512_add_ps(y0, y1);
        }
        __m512 h0[4], h1[4];
        a_transform(y[0], y[2], h0);
        a_transform(y[1], y[3], h1);
        for (int h = 0; h < 4; ++h) {
          __m512 out[4];
          a_transform(h0[h], h1[h], out);
          for (int w = 0; w < 4; ++w) _mm512_store_ps(to + (4 * h + w) * stride, out[w]);
        }
      }
    }
    t += at.count;
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
void accumulate_point(const float* v, const float* z, const Channels& c, int64_t tiles, bool first,
                      float* du) {
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

BORA_LANES_INLINE void g_adjoint(const __m512 u[4], __m512 out[3]) {
  const __m512 half = _mm512_set1_ps(0.5f);
  const __m512 even = _mm512_mul_ps(half, _mm512_add_ps(u[1], u[2]));
  out[0] = _mm512_add_ps(u[0], even);
  out[1] = _mm512_mul_ps(half, _mm512_sub_ps(u[1], u[2]));
  out[2] = _mm512_sub_ps(even, u[3]);
}

/// 64 points, `point` floats apart, to 27 taps, `tap` floats apart.
void output_weights(const float* du, int64_t point, float* dw, int64_t tap) {
  __m512 slab[3][16];
  for (int k = 0; k < 16; ++k) {
    __m512 u[4], out[3];
    for (int d = 0; d < 4; ++d) u[d] = _mm512_load_ps(du + (16 * d + k) * point);
    g_adjoint(u, out);
    for (int d = 0; d < 3; ++d) slab[d][k] = out[d];
  }
  for (int d = 0; d < 3; ++d) {
    __m512 rows[3][4];
    for (int w = 0; w < 4; ++w) {
      const __m512 u[4] = {slab[d][w], slab[d][4 + w], slab[d][8 + w], slab[d][12 + w]};
      __m512 out[3];
      g_adjoint(u, out);
      for (int h = 0; h < 3; ++h) rows[h][w] = out[h];
    }
    for (int h = 0; h < 3; ++h) {
      __m512 out[3];
      g_adjoint(rows[h], out);
      for (int w = 0; w < 3; ++w) _mm512_store_ps(dw + (9 * d + 3 * h + w) * tap, out[w]);
    }
  }
}

template <Storage S>
void gradient(const Gradient& call, const Channels& c, int64_t begin, int64_t tiles, int64_t block,
              float* scratch, float* dw, int64_t tap, int64_t row) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(typename Lanes<S>::Element));
  const int64_t out_blocks = blocks_of(c.n_out);
  const int64_t point = blocks_of(c.n_in) * out_blocks * kLanes * kLanes;
  float* du = scratch;
  float* v = du + 64 * point;
  float* z = v + 16 * point_stride(c.n_in, block);
  for (int64_t done = 0; done < tiles; done += block) {
    const int64_t n = tiles - done < block ? tiles - done : block;
    const int64_t v_stride = point_stride(c.n_in, n), z_stride = point_stride(c.n_out, n);
    Prefetch input(64), output(64);
    const int64_t next = begin + done + n;
    input.add_patches(call.shape, call.x, kBytes, next, n);
    output.add_outputs(call.shape, call.dy, kBytes, next, n);
    for (int pd = 0; pd < 4; ++pd) {
      input_slab<S>(call.shape, call.x, c.in, c.n_in, pd, begin + done, n, v);
      gradient_slab<S>(call.shape, call.dy, c.out, c.n_out, pd, begin + done, n, z);
      for (int p = 0; p < 16; ++p) {
        input.step<false>();
        output.step<false>();
        accumulate_point(v + p * v_stride, z + p * z_stride, c, n, done == 0,
                         du + (pd * 16 + p) * point);
      }
    }
  }
  for (int64_t i = 0; i < c.n_in; ++i)
    for (int64_t o = 0; o < out_blocks; ++o)
      output_weights(du + ((i / kLanes * out_blocks + o) * kLanes + i % kLanes) * kLanes, point,
                     dw + i * row + o * kLanes, tap);
}

}  // namespace

int64_t gradient_scratch_floats(const Channels& c, int64_t block) {
  return 64 * blocks_of(c.n_in) * blocks_of(c.n_out) * kLanes * kLanes +
         16 * (point_stride(c.n_in, block) + point_stride(c.n_out, block));
}

void gradient_tiles(const Gradient& call, const Channels& c, int64_t begin, int64_t tiles,
                    int64_t block, float* scratch, float* dw, int64_t tap, int64_t row) {
  switch (call.storage) {
    case Storage::f32:
      return gradient<Storage::f32>(call, c, begin, tiles, block, scratch, dw, tap, row);
    case Storage::bf16:
      return gradient<Storage::bf16>(call, c, begin, tiles, block, scratch, dw, tap, row);
    case Storage::f16:
      return gradient<Storage::f16>(call, c, begin, tiles, block, scratch, dw, tap, row);
  }
}

}  // namespace bora::kernels::cpu::winograd
