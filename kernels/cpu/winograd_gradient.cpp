// SPDX-License-Identifier: Apache-2.0
// Weight gradient of a run of tiles, the adjoint of the forward pass with respect to the weights:
// with V = B^T x B and Z = A dy A^T of every tile, dU[point] += V[point]^T Z[point] over the tiles,
// then dw = G^T dU G.
#include "kernels/cpu/winograd_input.hpp"
#include "kernels/cpu/winograd_multiply.hpp"
#include "kernels/cpu/winograd_prefetch.hpp"

namespace bora::kernels::cpu::winograd {
namespace {

/// Slab `pd` of Z: z[point][channel block][tile][16] of channels [c0, c0 + n_c) of dy.
template <Storage S, int TH, int TW>
void gradient_slab(const Shape& s, const void* dy, int64_t c0, int64_t n_c, int pd, int64_t begin,
                   int64_t tiles, float* z) {
  using E = typename Lanes<S>::Element;
  const int64_t row = s.out[2] * s.c_out, plane = s.out[1] * row;
  const int64_t stride = point_stride(n_c, tiles);
  for (int64_t t = 0; t < tiles;) {
    const TileRow at = tile_row(s, begin + t, tiles - t);
    const E* corner = static_cast<const E*>(dy) + (at.n * s.out[0] + 2 * at.d) * plane +
                      TH * at.h * row + TW * at.w * s.c_out + c0;
    const bool second_d = 2 * at.d + 1 < s.out[0];
    const int64_t rows = s.out[1] - TH * at.h;
    for (int64_t c = 0; c < n_c; c += kLanes) {
      const __mmask16 lanes = lanes_of(n_c, c);
      float* to = z + (c / kLanes * tiles + t) * kLanes;
      for (int64_t i = 0; i < at.count; ++i, to += kLanes) {
        const E* from = corner + c + TW * i * s.c_out;
        const int64_t columns = s.out[2] - TW * (at.w + i);
        __m512 points[TW][TH + 2];  // combined along D, transformed along H
        BORA_UNROLL
        for (int w = 0; w < TW; ++w) {
          __m512 y[TH];
          BORA_UNROLL
          for (int h = 0; h < TH; ++h) {
            const bool in = w < columns && h < rows, in1 = in && second_d && pd != 0;
            const E* cell = from + (in ? w * s.c_out + h * row : 0);
            const __m512 y0 = Lanes<S>::load(cell, in && pd != 3 ? lanes : __mmask16{0});
            const __m512 y1 = Lanes<S>::load(cell + (in1 ? plane : 0), in1 ? lanes : __mmask16{0});
            y[h] = pd == 2 ? sub(y0, y1) : add(y0, y1);  // the last row without its sign
          }
          output_adjoint_axis<TH>(y, points[w]);
        }
        BORA_UNROLL
        for (int h = 0; h < TH + 2; ++h) {
          __m512 y[TW], out[TW + 2];
          BORA_UNROLL
          for (int w = 0; w < TW; ++w) y[w] = points[w][h];
          output_adjoint_axis<TW>(y, out);
          BORA_UNROLL
          for (int w = 0; w < TW + 2; ++w)
            _mm512_store_ps(to + ((TW + 2) * h + w) * stride, out[w]);
        }
      }
    }
    t += at.count;
  }
}

/// All points, `point` floats apart, to 27 taps, `tap` floats apart.
template <int TH, int TW>
void output_weights(const float* du, int64_t point, float* dw, int64_t tap) {
  constexpr int kH = TH + 2, kW = TW + 2;
  __m512 slab[3][kH * kW];
  for (int k = 0; k < kH * kW; ++k) {
    __m512 u[4], out[3];
    for (int d = 0; d < 4; ++d) u[d] = _mm512_load_ps(du + (kH * kW * d + k) * point);
    weight_adjoint_axis<2>(u, out);
    for (int d = 0; d < 3; ++d) slab[d][k] = out[d];
  }
  for (int d = 0; d < 3; ++d) {
    __m512 rows[3][kW];
    for (int w = 0; w < kW; ++w) {
      __m512 u[kH], out[3];
      for (int h = 0; h < kH; ++h) u[h] = slab[d][h * kW + w];
      weight_adjoint_axis<TH>(u, out);
      for (int h = 0; h < 3; ++h) rows[h][w] = out[h];
    }
    for (int h = 0; h < 3; ++h) {
      __m512 out[3];
      weight_adjoint_axis<TW>(rows[h], out);
      for (int w = 0; w < 3; ++w) _mm512_store_ps(dw + (9 * d + 3 * h + w) * tap, out[w]);
    }
  }
}

template <Storage S, int TH, int TW>
void gradient(const Gradient& call, const Channels& c, int64_t begin, int64_t tiles, int64_t block,
              float* scratch, float* dw, int64_t tap, int64_t row) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(typename Lanes<S>::Element));
  const int64_t out_blocks = blocks_of(c.n_out);
  const int64_t point = blocks_of(c.n_in) * out_blocks * kLanes * kLanes;
  constexpr int kPoints = (TH + 2) * (TW + 2);
  float* du = scratch;
  float* v = du + 4 * kPoints * point;
  float* z = v + kPoints * point_stride(c.n_in, block);
  for (int64_t done = 0; done < tiles; done += block) {
    const int64_t n = tiles - done < block ? tiles - done : block;
    const int64_t v_stride = point_stride(c.n_in, n), z_stride = point_stride(c.n_out, n);
    Prefetch input(4 * kPoints), output(4 * kPoints);
    const int64_t next = begin + done + n;
    input.add_patches(call.shape, call.x, kBytes, next, n);
    output.add_outputs(call.shape, call.dy, kBytes, next, n);
    for (int pd = 0; pd < 4; ++pd) {
      input_slab<S, TH, TW>(call.shape, call.x, c.in, c.n_in, pd, begin + done, n, v);
      gradient_slab<S, TH, TW>(call.shape, call.dy, c.out, c.n_out, pd, begin + done, n, z);
      for (int p = 0; p < kPoints; ++p) {
        input.step<false>();
        output.step<false>();
        accumulate_point(v + p * v_stride, z + p * z_stride, c, n, done == 0,
                         du + (pd * kPoints + p) * point);
      }
    }
  }
  for (int64_t i = 0; i < c.n_in; ++i)
    for (int64_t o = 0; o < out_blocks; ++o)
      output_weights<TH, TW>(du + ((i / kLanes * out_blocks + o) * kLanes + i % kLanes) * kLanes,
                             point, dw + i * row + o * kLanes, tap);
}

template <Storage S>
void gradient_of(const Gradient& call, const Channels& c, int64_t begin, int64_t tiles,
                 int64_t block, float* scratch, float* dw, int64_t tap, int64_t row) {
  if (call.shape.tile[1] == 4)
    return gradient<S, 4, 4>(call, c, begin, tiles, block, scratch, dw, tap, row);
  if (call.shape.tile[2] == 4)
    return gradient<S, 2, 4>(call, c, begin, tiles, block, scratch, dw, tap, row);
  return gradient<S, 2, 2>(call, c, begin, tiles, block, scratch, dw, tap, row);
}

}  // namespace

int64_t gradient_scratch_floats(const Shape& s, const Channels& c, int64_t block) {
  const int64_t points = (s.tile[1] + 2) * (s.tile[2] + 2);
  return 4 * points * blocks_of(c.n_in) * blocks_of(c.n_out) * kLanes * kLanes +
         points * (point_stride(c.n_in, block) + point_stride(c.n_out, block));
}

void gradient_tiles(const Gradient& call, const Channels& c, int64_t begin, int64_t tiles,
                    int64_t block, float* scratch, float* dw, int64_t tap, int64_t row) {
  switch (call.storage) {
    case Storage::f32:
      return gradient_of<Storage::f32>(call, c, begin, tiles, block, scratch, dw, tap, row);
    case Storage::bf16:
      return gradient_of<Storage::bf16>(call, c, begin, tiles, block, scratch, dw, tap, row);
    case Storage::f16:
      return gradient_of<Storage::f16>(call, c, begin, tiles, block, scratch, dw, tap, row);
  }
}

}  // namespace bora::kernels::cpu::winograd
