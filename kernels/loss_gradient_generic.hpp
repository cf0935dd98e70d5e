// SPDX-License-Identifier: Apache-2.0
// The gradient losses by the launch shapes, for any device.  gradient_loss_* call them where there
// are no loops of their own (CUDA); on the CPU they are the tests' second opinion.  Arguments are
// checked there.
#pragma once

#include "kernels/loss.hpp"

namespace bora::kernels::generic {

void gradient_loss_sums(Stream stream, GradientLossForm form, const Tensor& prediction,
                        const Tensor& target, const Tensor& region, Tensor& sums);
void gradient_loss_backward(Stream stream, GradientLossForm form, const Tensor& prediction,
                            const Tensor& target, const Tensor& region, const Tensor& sums,
                            const Tensor& dloss, Tensor& dprediction);

}  // namespace bora::kernels::generic
