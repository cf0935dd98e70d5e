// SPDX-License-Identifier: Apache-2.0
// Convolutions of 1x1x1 to a handful of channels: the head of a network.  Memory-bound (2 n_out
// multiplications an element), and a library pads the outputs to a multiple of 8 by copies of whole
// tensors.  Byte floors, with A = the size of x: forward and data gradient A, weight gradient A
// (+ the small side, n_out / channels of A).
#pragma once

#include "kernels/conv3d.hpp"

namespace bora::kernels::cuda {

/// Whether the functions below take this convolution of x (N, D, H, W, I) with w (O, 1, 1, 1, I) to
/// y (N, D, H, W, O): stride 1, no padding, one group, O <= 8, I a multiple of a pack (8 elements
/// of a 16-bit type, 4 of f32) and at most 32 packs, x and w where packs may start.
bool head_applies(const Conv3dAttributes& a, const Tensor& x, const Tensor& w, const Tensor& y);

/// y = conv(x, w) + bias; bias (O) or undefined.  Sums in f32 along a fixed tree.
void head_forward(Stream stream, const Tensor& x, const Tensor& w, const Tensor& bias, Tensor& y);
/// dx = adjoint of conv with respect to x, applied to dy.
void head_backward_data(Stream stream, const Tensor& dy, const Tensor& w, Tensor& dx);
/// dw = (or +=) the gradient of w, of x's type or f32.  Sums of some dozens of cells in f32, joined
/// in f64 in an order fixed by the shape.
void head_backward_weights(Stream stream, const Tensor& x, const Tensor& dy, GradientMode mode,
                           Tensor& dw);

}  // namespace bora::kernels::cuda
