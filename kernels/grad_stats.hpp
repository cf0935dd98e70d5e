// SPDX-License-Identifier: Apache-2.0
// What a step needs to know of its gradients, in one pass over the flat buffer.
#pragma once

#include <cmath>

#include "core/portable.hpp"
#include "core/tensor.hpp"

namespace bora::kernels {

/// out = {sum of squares, number of non-finite elements, largest magnitude} of `gradient` (any
/// floating type); out (3) f64 on the same device.  Non-finite elements are counted and left out of
/// the other two, so out is always finite.  Sums in f64, fixed tree (a device's is another one
/// than the CPU's): the same bits for any number of threads.  Several ranges: add the first two,
/// take the maximum of the third.
void grad_stats(Stream stream, const Tensor& gradient, Tensor& out);

/// gradient *= factor in place (in f32; f64 for f64), and grad_stats of the result, in one pass.  A
/// product that is not finite stays in place and is counted.
void unscale_and_stats(Stream stream, double factor, Tensor& gradient, Tensor& out);

/// grad_stats of gradient / loss scale (times 1 / scale in f32; f64 for f64); the gradient is read
/// only.  The scale is read on the device: `scalars` of kernels/step_scalars.hpp, whose `unscale`
/// becomes 1 / scale.scale.  The bits are those of unscale_and_stats with that factor.
void scaled_grad_stats(Stream stream, Tensor& scalars, const Tensor& gradient, Tensor& out);

/// The factor that limits a gradient of norm `norm` to `max_norm`: min(1, max_norm / (norm +
/// 1e-6)); 1 if max_norm is 0 (no clipping), or if norm is not finite (the caller skips such a
/// step: see the count above).
BORA_HD inline double clip_factor(double norm, double max_norm) {
  if (!(max_norm > 0.0) || !(norm - norm == 0.0)) return 1.0;
  const double factor = max_norm / (norm + 1e-6);
  return factor < 1.0 ? factor : 1.0;
}

}  // namespace bora::kernels
