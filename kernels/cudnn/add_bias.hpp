// SPDX-License-Identifier: Apache-2.0
// The bias of a convolution in a pass of its own: where cuDNN has no engine that adds it.
#pragma once

#include "core/tensor.hpp"

namespace bora::kernels::cudnn {

/// y[..., c] += bias[c], in f32, rounded once.  y (..., C), bias (C) of its type.
void add_bias(Stream stream, const Tensor& bias, Tensor& y);

}  // namespace bora::kernels::cudnn
