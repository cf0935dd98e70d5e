// SPDX-License-Identifier: Apache-2.0
// Winograd F(2 x TH x TW, 3x3x3), TH and TW 2 or 4, on AVX-512: what the files compiled for AVX-512
// offer to winograd.cpp. Plain pointers and no inline functions: nothing that the linker might
// share with files for older processors is compiled here.  None of these may be called unless
// winograd_supported().
//
// A tile is 2 x TH x TW cells of the output.  With 1-D transforms B^T (input), G (weights), A^T
// (output) applied along D, H and W (winograd_axis.hpp),  tile = A^T [(G w) . (B^T patch)] A summed
// over input channels.  Multiplications per 8 outputs: 216 directly, 64 with tiles of 2x2x2, 48 of
// 2x2x4, 36 of 2x4x4.  Tiles are numbered over (n, D, H, W), W fastest.
#pragma once

#include <cstdint>

namespace bora::kernels::cpu::winograd {

/// How x, y, dx, dy are stored; arithmetic is in f32.
enum class Storage { f32, bf16, f16 };

/// A convolution with a 3x3x3 kernel, stride 1: out = in + 2 pad - 2 along each axis (D, H, W).
struct Shape {
  int64_t n, in[3], out[3], pad[3], c_in, c_out;
  int64_t tile[3];  ///< 2, TH, TW: 2x2x2, 2x2x4 or 2x4x4
};

/// Channels handled together: one 512-bit vector.
constexpr int64_t kLanes = 16;
/// Output channels of a panel of transformed weights; the last panel may be narrower.
constexpr int64_t kPanel = 32;

/// Floats of the transformed weights of one of the 4 (TH + 2) (TW + 2) points: c_in x c_out rounded
/// up to kLanes, and a line, so that the points do not all fall into one set of the cache.
int64_t weight_point_floats(int64_t c_in, int64_t c_out);
/// Transforms w (c_out, 27, c_in), or with `flipped` w (c_in, 27, c_out) with taps reversed, into
/// u: for input channels [begin, end), multiples of kLanes or c_in.
void transform_weights(const float* w, bool flipped, const Shape& shape, int64_t begin, int64_t end,
                       float* u);

/// One call of the forward pass.
struct Forward {
  Shape shape;
  Storage storage;
  const void* x;
  const float* u;
  const float* bias;  ///< c_out values or nullptr
  void* y;
};
/// Floats of scratch for forward_tiles.
int64_t forward_scratch_floats(const Shape& shape, int64_t tiles, int64_t block);
/// Computes tiles [begin, begin + tiles) of y: for each of the four points along D, `block` tiles
/// at a time, so that a quarter of the weights is used for `tiles` tiles while what a block needs
/// stays in the first-level cache.  The bits of a tile depend on nothing but its input.
void forward_tiles(const Forward& call, int64_t begin, int64_t tiles, int64_t block,
                   float* scratch);

/// One call of the weight gradient.
struct Gradient {
  Shape shape;
  Storage storage;
  const void* x;
  const void* dy;
};
/// A part of the channels: input channels [in, in + n_in), output channels [out, out + n_out), the
/// first of each a multiple of kLanes.
struct Channels {
  int64_t in, n_in, out, n_out;
};
int64_t gradient_scratch_floats(const Shape& shape, const Channels& c, int64_t block);
/// dw[tap][i - c.in][o - c.out], `tap` and `row` floats apart, row a multiple of kLanes, becomes
/// the sum over tiles [begin, begin + tiles), taken `block` at a time; rows are written up to a
/// multiple of kLanes.
void gradient_tiles(const Gradient& call, const Channels& c, int64_t begin, int64_t tiles,
                    int64_t block, float* scratch, float* dw, int64_t tap, int64_t row);

}  // namespace bora::kernels::cpu::winograd
