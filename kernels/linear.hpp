// SPDX-License-Identifier: Apache-2.0
// The linear map over the last axis and its gradients, and the product of two matrices.
//
// On the CPU a 1x1x1 convolution over the rows, so types, engines, determinism and limits are those
// of kernels/conv3d.hpp.  On CUDA products by cuBLAS (kernels/cublas), f32 sums, f32 without TF32.
#pragma once

#include "core/tensor.hpp"
#include "kernels/gradient_mode.hpp"

namespace bora::kernels {

/// (..., O) for x (..., I) and w (O, I); throws Error if they do not fit.
Shape linear_output_shape(const Shape& x, const Shape& w);

/// y = x w^T + bias.  x (..., I); w (O, I); bias (O) or undefined; y (..., O); one type.
void linear_forward(Stream stream, const Tensor& x, const Tensor& w, const Tensor& bias, Tensor& y);
/// dx = dy w.  dy (..., O); w (O, I); dx (..., I).
void linear_backward_data(Stream stream, const Tensor& dy, const Tensor& w, Tensor& dx);
/// dw = (or +=) dy^T x.  x (..., I); dy (..., O); dw (O, I), the type of x or f32.
void linear_backward_weights(Stream stream, const Tensor& x, const Tensor& dy, GradientMode mode,
                             Tensor& dw);

/// Which of the factors is read along its columns.
enum class MatmulForm {
  plain,         ///< c = a b: a (R, K), b (K, C)
  b_transposed,  ///< c = a b^T: a (R, K), b (C, K)
  a_transposed,  ///< c = a^T b: a (K, R), b (K, C)
};
/// The product of two matrices of one floating type; c (R, C).  Throws Error if they do not fit.
void matmul(Stream stream, MatmulForm form, const Tensor& a, const Tensor& b, Tensor& c);

}  // namespace bora::kernels
