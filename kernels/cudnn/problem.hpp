// SPDX-License-Identifier: Apache-2.0
// One convolution as cuDNN is asked for it: plain numbers, the key of everything that is kept.
#pragma once

#include <cstdint>
#include <string>

#include "core/dtype.hpp"
#include "kernels/conv3d.hpp"
#include "kernels/cpu/conv3d_pieces.hpp"
#include "kernels/cuda/conv3d_settings.hpp"

namespace bora::kernels::cudnn {

using cpu::ConvProblem;
using cpu::problem_of;

enum class ConvPass : int64_t { forward, backward_data, backward_weights };
const char* name_of(ConvPass pass);

/// Integers without gaps: equal keys have equal bytes.  The problem is that of the convolution from
/// x to y in all three passes.
struct ConvKey {
  ConvPass pass = ConvPass::forward;
  int64_t type = 0;       ///< DType of x, w and y
  int64_t tf32 = 0;       ///< f32 operands may be rounded to TF32
  int64_t bias = 0;       ///< forward adds a bias in the same graph
  int64_t add = 0;        ///< the result is added to what is there (weight gradient)
  int64_t alignment = 0;  ///< bytes, that all pointers are multiples of: 2 to 16
  int64_t deterministic = 1;
  int64_t workspace_limit = 0;  ///< bytes
  ConvProblem problem;

  DType dtype() const { return static_cast<DType>(type); }
};

/// The key of a pass under `settings`; `alignment` is the largest power of two, at most 16, that
/// divides all addresses.
ConvKey key_of(ConvPass pass, const ConvProblem& problem, DType type, bool bias, bool add,
               int64_t alignment, const cuda::Conv3dSettings& settings);

/// Padding behind the input along an axis that gives problem.out by cuDNN's rule, out = (in + left
/// + right - reach) / stride + 1 rounded down: that of the left side where it does, since engines
/// know equal paddings best; else the exact one, or 0 where the last windows end before the input
/// does.  Throws Error if none does.
int64_t padding_behind(const ConvProblem& problem, int axis);

/// "forward f16 2x32x32x32x16 -> 32x32x32x16 k3x3x3 s1x1x1 p1x1x1+1x1x1 d1x1x1 g1 a16 ...": all of
/// the key, for logs and as the name in a plan file.
std::string text_of(const ConvKey& key);

}  // namespace bora::kernels::cudnn
