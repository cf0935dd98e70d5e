// SPDX-License-Identifier: Apache-2.0
// Activations, forward and backward.  All tensors of a call have one shape, floating type and
// device; f64 on the CPU only.  NaN in gives NaN out.  x is the input, y the result.
#pragma once

#include "core/tensor.hpp"

namespace bora::kernels {

/// y = max(x, 0).
void relu_forward(Stream stream, const Tensor& x, Tensor& y);
/// dx = dy where y > 0, else 0.
void relu_backward(Stream stream, const Tensor& y, const Tensor& dy, Tensor& dx);
/// y = x where x > 0, slope * x elsewhere; slope >= 0.
void leaky_relu_forward(Stream stream, double slope, const Tensor& x, Tensor& y);
/// dx = dy where y > 0, slope * dy elsewhere.
void leaky_relu_backward(Stream stream, double slope, const Tensor& y, const Tensor& dy,
                         Tensor& dx);
/// y = x s(x), s the logistic function.
void silu_forward(Stream stream, const Tensor& x, Tensor& y);
/// dx = dy s(x) (1 + x (1 - s(x))).
void silu_backward(Stream stream, const Tensor& x, const Tensor& dy, Tensor& dx);
/// y = x Phi(x), Phi the normal distribution function (by erf).
void gelu_forward(Stream stream, const Tensor& x, Tensor& y);
/// dx = dy (Phi(x) + x phi(x)).
void gelu_backward(Stream stream, const Tensor& x, const Tensor& dy, Tensor& dx);
/// y = 1 / (1 + exp(-x)).
void sigmoid_forward(Stream stream, const Tensor& x, Tensor& y);
/// dx = dy y (1 - y).
void sigmoid_backward(Stream stream, const Tensor& y, const Tensor& dy, Tensor& dx);
/// y = tanh(x).
void tanh_forward(Stream stream, const Tensor& x, Tensor& y);
/// dx = dy (1 - y^2).
void tanh_backward(Stream stream, const Tensor& y, const Tensor& dy, Tensor& dx);

/// y_i = exp(x_i - max) / sum exp(x_j - max) over the last axis (at least one element).
void softmax_forward(Stream stream, const Tensor& x, Tensor& y);
/// dx_i = y_i (dy_i - sum y_j dy_j).
void softmax_backward(Stream stream, const Tensor& y, const Tensor& dy, Tensor& dx);

}  // namespace bora::kernels
