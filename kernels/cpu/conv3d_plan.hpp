// SPDX-License-Identifier: Apache-2.0
// oneDNN primitives for pieces of convolutions, made once and kept.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "kernels/cpu/conv3d_pieces.hpp"
#include "kernels/cpu/conv3d_weights.hpp"

#include <oneapi/dnnl/dnnl.hpp>

namespace bora::kernels::cpu {

enum class ConvDirection { forward, backward_data, backward_weights };

/// A single-threaded primitive.
struct ConvPlan {
  dnnl::primitive primitive;
  dnnl::memory::desc x, weights, bias,
      y;  ///< x and y: N, D, H, W, C dense; weights: its own layout
  WeightLayout layout;
  int64_t scratch_bytes = 0;
  std::string implementation;
  /// oneDNN has only its reference loops (or nothing) for this: the caller must go another way.
  bool unusable = false;
};

/// The plan for `p` in `type` (f32 or bf16; weight gradients are f32).
std::shared_ptr<const ConvPlan> conv_plan(ConvDirection direction, DType type, bool bias,
                                          const ConvProblem& p);

/// Lists `implementation`, one of our own kernels, beside the plans.
void log_own_kernel(ConvDirection direction, DType type, bool bias, const ConvProblem& p,
                    const char* implementation);
/// Descriptions of the plans made so far and of own kernels used, sorted, each once.
std::vector<std::string> conv_plan_log();

}  // namespace bora::kernels::cpu
