// SPDX-License-Identifier: Apache-2.0
// Runs a convolution problem: cut into pieces, weights packed, a oneDNN primitive for each piece,
// pieces spread over threads.  f32 and bf16 as they are.
#pragma once

#include "core/tensor.hpp"
#include "kernels/cpu/conv3d_pieces.hpp"
#include "kernels/cpu/conv3d_weights.hpp"

namespace bora::kernels::cpu {

/// The extents of our weights for `p`.
WeightExtents extents_of(const ConvProblem& p);

/// rows x channels elements from `out` on become bias, or 0 if it is undefined.
void fill_rows(char* out, int64_t rows, int64_t channels, const Tensor& bias, DType type);

/// out = conv(in) + bias by forward primitives, with weights w of extents `e` used as `use` says.
/// False, and nothing written, if oneDNN has no kernel; so for the other two.  All throw Error if
/// one plane of a tensor exceeds kPieceElements.
bool run_forward(const ConvProblem& p, WeightUse use, const WeightExtents& e, const Tensor& in,
                 const Tensor& w, const Tensor& bias, Tensor& out);
/// dx by oneDNN's own data gradient, without bias.
bool run_backward_data(const ConvProblem& p, const Tensor& dy, const Tensor& w, Tensor& dx);
/// dw (f32) = or += sum over pieces, in their order.  False also where oneDNN's kernel is known to
/// be wrong.
bool run_backward_weights(const ConvProblem& p, const Tensor& x, const Tensor& dy,
                          GradientMode mode, Tensor& dw);

}  // namespace bora::kernels::cpu
