// SPDX-License-Identifier: Apache-2.0
// The passes of kernels/norm.hpp by the launch shapes: the tests' second opinion.  Arguments are
// those of the norm_* function of the same name and are checked there.
#pragma once

#include "kernels/norm.hpp"

namespace bora::kernels::generic {

void norm_moments(Stream stream, const NormShape& shape, const Tensor& x, Tensor& moments);
void norm_forward(Stream stream, const NormShape& shape, const FusedActivation& activation,
                  const NormInput& in, Tensor& y);
void norm_backward_sums(Stream stream, const NormShape& shape, const FusedActivation& activation,
                        const NormInput& in, const Tensor& dy, Tensor& sums, Tensor& dz);
void norm_backward_apply(Stream stream, const NormShape& shape, const FusedActivation& activation,
                         const NormInput& in, const Tensor& dy, const Tensor& dz,
                         const Tensor& coefficients, Tensor& dx);

}  // namespace bora::kernels::generic
