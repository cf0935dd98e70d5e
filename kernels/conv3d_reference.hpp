// SPDX-License-Identifier: Apache-2.0
// Convolution by its definition: the truth that all engines are compared with, and the engine of
// f64.  Every result element is one sum in a fixed order, in acc_t.
#pragma once

#include "kernels/conv3d.hpp"

namespace bora::kernels::reference {

/// As the functions of kernels/conv3d.hpp, shapes already checked; any floating type, CPU tensors.
void conv3d_forward(const Conv3dAttributes& a, const Tensor& x, const Tensor& w, const Tensor& bias,
                    Tensor& y);
void conv3d_backward_data(const Conv3dAttributes& a, const Tensor& dy, const Tensor& w,
                          const Tensor& bias, Tensor& dx);
void conv3d_backward_weights(const Conv3dAttributes& a, const Tensor& x, const Tensor& dy,
                             GradientMode mode, Tensor& dw);

}  // namespace bora::kernels::reference
