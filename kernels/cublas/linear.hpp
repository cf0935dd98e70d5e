// SPDX-License-Identifier: Apache-2.0
// The linear map on CUDA: products in cuBLAS's terms, run by gemm().  kernels/linear.cpp has
// checked the arguments.
#pragma once

#include "core/tensor.hpp"
#include "kernels/gradient_mode.hpp"
#include "kernels/linear.hpp"

namespace bora::kernels::cuda {

void linear_forward(Stream stream, const Tensor& x, const Tensor& w, const Tensor& bias, Tensor& y);
void linear_backward_data(Stream stream, const Tensor& dy, const Tensor& w, Tensor& dx);
void linear_backward_weights(Stream stream, const Tensor& x, const Tensor& dy, GradientMode mode,
                             Tensor& dw);
void matmul(Stream stream, MatmulForm form, const Tensor& a, const Tensor& b, Tensor& c);

}  // namespace bora::kernels::cuda
