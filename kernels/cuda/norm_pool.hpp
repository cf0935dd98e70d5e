// SPDX-License-Identifier: Apache-2.0
// The device's half of kernels/norm_pool.hpp, after its checks.  Each returns false, having done
// nothing, where packs do not fit (channels, alignment, 2^31 cells): the caller then does one after
// the other.
#pragma once

#include "kernels/norm_pool.hpp"

namespace bora::kernels::cuda {

bool norm_forward_pool(Stream stream, const NormShape& shape, const FusedActivation& activation,
                       const NormInput& in, Tensor& y, Tensor& pooled, Tensor& winner);
bool norm_pool_backward_sums(Stream stream, const NormShape& shape,
                             const FusedActivation& activation, const NormInput& in,
                             const NormPoolGradient& gradient, Tensor& sums);
bool norm_pool_backward_apply(Stream stream, const NormShape& shape,
                              const FusedActivation& activation, const NormInput& in,
                              const NormPoolGradient& gradient, const Tensor& coefficients,
                              Tensor& dx);

}  // namespace bora::kernels::cuda
