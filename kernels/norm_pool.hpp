// SPDX-License-Identifier: Apache-2.0
// A norm whose result goes two ways, as in an encoder: kept at full size (the skip connection) and
// max-pooled by 2x2x2.  On a device one kernel does both, so that y is not read again: A read,
// A + A / 8 and the winners (A / 16 in 16-bit types) written; back, the pooled copy's gradient is
// gathered on the way, so that neither it nor its sum with the skip's is ever stored at full size.
#pragma once

#include "kernels/norm.hpp"

namespace bora::kernels {

/// norm_forward and max_pool3d_forward of its result (windows of 2x2x2, stride 2; cells behind the
/// last window are in y only).  x is a volume batch (N, D, H, W, C) with every extent at least 2;
/// pooled (N, D / 2, H / 2, W / 2, C) of its type; winner u8 of pooled's shape, see
/// kernels/pool3d.hpp.  The bits are those of the two calls.
void norm_forward_pool(Stream stream, const NormShape& shape, const FusedActivation& activation,
                       const NormInput& in, Tensor& y, Tensor& pooled, Tensor& winner);

/// The gradients of y (undefined: none) and of pooled.
struct NormPoolGradient {
  const Tensor& dy;
  const Tensor& dpooled;
  const Tensor& winner;
};

/// norm_backward_sums (no residual) for the sum of both gradients.  On a device that sum is not
/// rounded to the type of x.
void norm_pool_backward_sums(Stream stream, const NormShape& shape,
                             const FusedActivation& activation, const NormInput& in,
                             const NormPoolGradient& gradient, Tensor& sums);

/// norm_backward_apply likewise.
void norm_pool_backward_apply(Stream stream, const NormShape& shape,
                              const FusedActivation& activation, const NormInput& in,
                              const NormPoolGradient& gradient, const Tensor& coefficients,
                              Tensor& dx);

}  // namespace bora::kernels
