// SPDX-License-Identifier: Apache-2.0
// 3-D convolution: forward, data gradient, weight gradient.  Checks and the choice of engine; the
// work is done in kernels/cpu/ (own AVX-512 kernels by Winograd for 3x3x3, own 1x1x1 kernels,
// oneDNN), kernels/cudnn/ or conv3d_reference.cpp.
//
// The transposed convolution is these three with other names: its forward is the data gradient, its
// data gradient is the forward, its weight gradient has x and dy exchanged.
//
// Types: x, y, w, bias, dx, dy share one (dw may be f32).  f16 and bf16: own kernels convert on
// load and on store; elsewhere bf16 goes to oneDNN where the processor has bf16 instructions, else
// both go through f32 scratch.  Rounded once at the end.  f64: reference loops.  Sums are in f32
// (f64 for f64).
//
// Determinism: the work is cut into pieces by the shape alone, each piece is computed by one
// thread, and sums over pieces are formed in a fixed order.  So the bits do not depend on the run
// or on the number of threads; they do depend on the instruction set (AVX2, AVX-512), and on the
// engine, which is chosen by the shape of one sample.
//
// Rounding: Winograd's sums are of transformed values, with errors a few times those of a direct
// sum (bounds in tests/kernels/winograd_test.cpp).  A NaN or inf of the input makes every cell of
// the tiles around it (up to 2x4x4) not finite, some of which a direct sum would keep; what a
// direct sum makes not finite stays so.
//
// Sizes: a piece whose tensors are below 2^31 elements is the unit, so whole tensors may be larger;
// a shape that cannot be cut so (one plane of more than 2^31 elements) is refused by name.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "kernels/gradient_mode.hpp"

namespace bora::kernels {

struct Conv3dAttributes {
  Dims3 stride = Dims3::all(1);
  Dims3 padding = Dims3::all(0);
  Dims3 dilation = Dims3::all(1);
  int64_t groups = 1;
};

/// Output shape (N, D', H', W', O) of a convolution of x (N, D, H, W, I) with w (O, kD, kH, kW,
/// I/groups), D' = (D + 2 padding - dilation (kD - 1) - 1) / stride + 1 rounded down; 0 where D is
/// 0 and padding does not help.  Throws Error (beginning with `op`) if ranks, channels, groups or
/// attributes do not fit, or the kernel does not fit into a padded extent that is not empty.
Shape conv3d_output_shape(const char* op, const Conv3dAttributes& a, const Shape& x,
                          const Shape& w);
/// Output shape (N, D', H', W', O) of the transposed convolution of x (N, D, H, W, I) with w (I,
/// kD, kH, kW, O/groups), D' = (D - 1) stride - 2 padding + dilation (kD - 1) + output_padding + 1
/// (0 where D is 0).  output_padding must be less than stride or dilation.
Shape conv_transpose3d_output_shape(const char* op, const Conv3dAttributes& a,
                                    const Dims3& output_padding, const Shape& x, const Shape& w);

/// y = conv(x, w) + bias.  x (N, D, H, W, I); w (O, kD, kH, kW, I/groups); bias (O) or undefined;
/// y (N, D', H', W', O) of conv3d_output_shape.
void conv3d_forward(Stream stream, const Conv3dAttributes& a, const Tensor& x, const Tensor& w,
                    const Tensor& bias, Tensor& y);
/// dx = adjoint of conv with respect to x, applied to dy, + bias.  dy (N, D', H', W', O); w (O, kD,
/// kH, kW, I/groups); bias (I) or undefined; dx (N, D, H, W, I): the extents of dx choose among
/// those that give D'.
void conv3d_backward_data(Stream stream, const Conv3dAttributes& a, const Tensor& dy,
                          const Tensor& w, const Tensor& bias, Tensor& dx);
/// dw = (or +=) gradient of sum(conv(x, w) dy) with respect to w.  dw (O, kD, kH, kW, I/groups),
/// the type of x or f32.
void conv3d_backward_weights(Stream stream, const Conv3dAttributes& a, const Tensor& x,
                             const Tensor& dy, GradientMode mode, Tensor& dw);
/// db = (or +=) sum of dy over all axes but the last.  dy (..., C); db (C), the type of dy or f32.
/// Sums in f32 inside chunks of rows fixed by the shape; the chunks are joined in f64 in order (on
/// CUDA in f32 along a fixed tree).
void channel_sum(Stream stream, const Tensor& dy, GradientMode mode, Tensor& db);

/// One call of the three functions above, as it was made.
struct Conv3dCall {
  enum class Pass { forward, backward_data, backward_weights };
  Pass pass;
  Conv3dAttributes attributes;
  Shape x, w, y;  ///< of the forward convolution: dx, dw and dy have the shapes of x, w and y
  DType type;     ///< of the values
  bool bias;
  GradientMode mode;
};

/// Hears of all convolutions of this thread while it lives, before they are computed; for tests
/// that ask what a network computes.  Scopes end in reverse order.
class Conv3dListener {
 public:
  explicit Conv3dListener(std::function<void(const Conv3dCall&)> heard);
  ~Conv3dListener();
  Conv3dListener(const Conv3dListener&) = delete;
  Conv3dListener& operator=(const Conv3dListener&) = delete;

 private:
  std::function<void(const Conv3dCall&)> heard_;
  std::function<void(const Conv3dCall&)>* outer_;
};

/// The library kernels that convolutions of this process have used so far on one kind of device,
/// one line each: "forward f32 1x64x64x64x16 -> 16 k3x3x3 ... : brgconv:avx512_core".  For logs and
/// for the test that none is a reference implementation.
std::vector<std::string> conv3d_implementations(DeviceType type = DeviceType::cpu);

/// The library behind the convolutions on one kind of device and its version, "oneDNN 2.6.3".
std::string conv3d_library(DeviceType type = DeviceType::cpu);

}  // namespace bora::kernels
