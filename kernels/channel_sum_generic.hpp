// SPDX-License-Identifier: Apache-2.0
// The sum over all axes but the last by the launch shapes, for any device: what channel_sum
// (kernels/conv3d.hpp) does on CUDA; on the CPU it is the tests' second opinion.
#pragma once

#include "kernels/conv3d.hpp"

namespace bora::kernels::generic {

/// As kernels::channel_sum, after its checks.  Sums in f32 (f64 for f64) along the fixed tree of
/// reduce_columns.
void channel_sum(Stream stream, const Tensor& dy, GradientMode mode, Tensor& db);

}  // namespace bora::kernels::generic
