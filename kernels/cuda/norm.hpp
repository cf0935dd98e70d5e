// SPDX-License-Identifier: Apache-2.0
// The passes of kernels/norm.hpp on a device: 16-byte packs, any number of channels, group,
// instance and batch norm alike.  kernels/norm_*.cpp check the arguments and come here.
//
// Bytes, with A = the size of x: moments read A; forward reads A (+ A for a residual), writes A;
// sums read 2 A (+ A for a residual whose activation has a derivative; + A written where dz is
// wanted); apply reads 2 A, writes A.
#pragma once

#include "kernels/norm.hpp"

namespace bora::kernels::cuda {

void norm_moments(Stream stream, const NormShape& shape, const Tensor& x, Tensor& moments);
void norm_forward(Stream stream, const NormShape& shape, const FusedActivation& activation,
                  const NormInput& in, Tensor& y);
void norm_backward_sums(Stream stream, const NormShape& shape, const FusedActivation& activation,
                        const NormInput& in, const Tensor& dy, Tensor& sums, Tensor& dz);
void norm_backward_apply(Stream stream, const NormShape& shape, const FusedActivation& activation,
                         const NormInput& in, const Tensor& dy, const Tensor& dz,
                         const Tensor& coefficients, Tensor& dx);

}  // namespace bora::kernels::cuda
