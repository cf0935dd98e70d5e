// SPDX-License-Identifier: Apache-2.0
// Convolution on the CPU: f32 and bf16 through oneDNN, f16 through f32.  The functions of
// kernels/conv3d.hpp, after its checks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/conv3d.hpp"
#include "kernels/cpu/conv3d_pieces.hpp"

namespace bora::kernels::cpu {

void conv3d_forward(const Conv3dAttributes& a, const Tensor& x, const Tensor& w, const Tensor& bias,
                    Tensor& y);
void conv3d_backward_data(const Conv3dAttributes& a, const Tensor& dy, const Tensor& w,
                          const Tensor& bias, Tensor& dx);
void conv3d_backward_weights(const Conv3dAttributes& a, const Tensor& x, const Tensor& dy,
                             GradientMode mode, Tensor& dw);
void channel_sum(const Tensor& dy, GradientMode mode, Tensor& db);
std::vector<std::string> conv3d_implementations();
std::string conv3d_library();

/// How bf16 is computed: `automatic` natively where the processor has bf16 instructions, else
/// through f32.
enum class Bf16Path { automatic, native, through_f32 };
/// For tests of the path that this machine would not take by itself; native needs AVX-512.
void set_bf16_path(Bf16Path path);

/// Which kernels compute a convolution (or its data gradient, as the convolution that it is).
enum class ConvEngine { onednn, winograd, pointwise };
/// The rule of choice: by shape and type alone, so that a run repeats itself.
ConvEngine conv3d_engine(const ConvProblem& p, DType type);
/// For tests and measurements: overrides the rule.  winograd and pointwise hold where they fit,
/// else onednn; nullopt: the rule again.
void set_conv_engine(std::optional<ConvEngine> engine);

}  // namespace bora::kernels::cpu
