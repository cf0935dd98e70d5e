// SPDX-License-Identifier: Apache-2.0
// Convolutions by Winograd's F(2 x {2, 4} x {2, 4}, 3x3x3) with our own AVX-512 kernels: where they
// apply, and running them over threads.  f32, bf16 and f16 tensors as they are; arithmetic is in
// f32.
//
// Determinism: a tile of the output is computed by one thread in an order that nothing but its
// place and the channels decide; the weight gradient is cut into pieces by the shape alone and
// joined in their order.
//
// Rounding: an output sums products of transformed values; winograd_tile() says how the largest
// error compares with direct kernels, tests/kernels/winograd_test.cpp bounds it.  A NaN or inf of
// the input makes the whole tiles around it NaN, some cells of which a direct convolution would
// keep finite.
#pragma once

#include <array>
#include <optional>

#include "core/tensor.hpp"
#include "kernels/cpu/conv3d_pieces.hpp"
#include "kernels/cpu/conv3d_weights.hpp"
#include "kernels/gradient_mode.hpp"

namespace bora::kernels::cpu {

/// Does this processor run the kernels (AVX-512 F, BW, DQ, VL; F16C)?
bool winograd_supported();
/// Can they compute `p`: kernel 3x3x3, stride and dilation 1, one group, scratch within
/// kWinogradScratch?
bool winograd_fits(const ConvProblem& p, DType type);
/// Output cells that are computed together, along D, H, W.
using WinogradTile = std::array<int64_t, 3>;
inline constexpr WinogradTile kWinogradTiles[] = {{2, 2, 2}, {2, 2, 4}, {2, 4, 4}};
/// The tile by rule: of the weight gradient, or of the forward pass.
WinogradTile winograd_tile(const ConvProblem& p, DType type, bool gradient);
/// For tests and measurements: one of kWinogradTiles for all; nullopt: the rule again.  Not while
/// convolutions run.
void set_winograd_tile(std::optional<WinogradTile> tile);

/// Bytes that transformed weights, or all partial weight gradients, may take.
inline constexpr int64_t kWinogradScratch = int64_t{80} << 20;

/// y = conv(x, w) + bias for the problem `p`; `flipped`: w as the weights of the convolution whose
/// data gradient this is.
void winograd_forward(const ConvProblem& p, WeightUse use, const Tensor& x, const Tensor& w,
                      const Tensor& bias, Tensor& y);
/// dw (f32) = or += the weight gradient.
void winograd_backward_weights(const ConvProblem& p, const Tensor& x, const Tensor& dy,
                               GradientMode mode, Tensor& dw);

}  // namespace bora::kernels::cpu
