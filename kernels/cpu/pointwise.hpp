// SPDX-License-Identifier: Apache-2.0
// 1x1x1 convolutions with our own AVX-512 kernels, f32, bf16 and f16 as they are, arithmetic in
// f32. A row of the output is computed by one thread, channels in their order; the weight gradient
// is cut by the shape alone.
#pragma once

#include "core/tensor.hpp"
#include "kernels/cpu/conv3d_pieces.hpp"
#include "kernels/cpu/conv3d_weights.hpp"
#include "kernels/gradient_mode.hpp"

namespace bora::kernels::cpu {

/// Can they compute `p`: kernel 1, stride 1, no padding, one group, at most 512 channels?
bool pointwise_fits(const ConvProblem& p);
/// As winograd_forward and winograd_backward_weights.
void pointwise_forward(const ConvProblem& p, WeightUse use, const Tensor& x, const Tensor& w,
                       const Tensor& bias, Tensor& y);
void pointwise_backward_weights(const ConvProblem& p, const Tensor& x, const Tensor& dy,
                                GradientMode mode, Tensor& dw);

}  // namespace bora::kernels::cpu
