// SPDX-License-Identifier: Apache-2.0
// Exponential moving average of weights: its step, and the exchange of two buffers.
#pragma once

#include <cstdint>

#include "core/portable.hpp"
#include "core/tensor.hpp"

namespace bora::kernels {

/// The share that the average keeps at its n-th step (n = 1, 2, ...): min(decay, (1 + n) / (10 +
/// n)).  The warm-up lets the first steps forget the start: a decay of 0.999 is reached after some
/// 9000 updates.
BORA_HD inline double ema_decay(double decay, double n) {
  const double warm = (1.0 + n) / (10.0 + n);
  return warm < decay ? warm : decay;
}

/// share () f32 = 1 - ema_decay(decay, updates - begin), with the number of updates from `scalars`
/// (kStepScalars of kernels/step_scalars.hpp, of the same device): 0 where the update was skipped.
/// Without the host; may be captured.  begin: updates that had been made when the average began.
void ema_share(Stream stream, double decay, int64_t begin, const Tensor& scalars, Tensor& share);

/// average = average + share (values - average); share () f32, read where the weights are.  A share
/// of 0 leaves all bits alone.  average, values: f32 (f64 on the CPU, for tests) of equal shape and
/// device.  One pass: 8 bytes read and 4 written an element.
void ema_update(Stream stream, const Tensor& share, const Tensor& values, Tensor& average);

/// Exchanges the contents of two f32 tensors (f64 on the CPU) of equal shape and device that do not
/// overlap.  Doing it twice gives the bits back.
void swap_contents(Stream stream, Tensor& a, Tensor& b);

}  // namespace bora::kernels
