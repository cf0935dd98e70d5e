// SPDX-License-Identifier: Apache-2.0
// Mixed precision: what type an op computes in, decided at its door.
#pragma once

#include <string>

#include "core/tensor.hpp"

namespace bora {

/// What type an op computes in under mixed precision: `half` in f16 or bf16 (convolutions, matrix
/// products), `full` in f32 (losses, statistics, softmax), `follow` in the type of its input.
enum class Precision { half, full, follow };

/// The type that ops of class `half` compute in on this thread: f16 or bf16, or f32 where mixed
/// precision is off (the default).
DType half_type();

/// Mixed precision in `type` (f16 or bf16; f32 switches it off) on this thread while it lives.
/// Only forward needs it: the conversions are ops on the tape, so backward follows by itself.
class PrecisionScope {
 public:
  explicit PrecisionScope(DType type);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  DType previous_;
};

/// The type behind the setting "fp32", "fp16" or "bf16"; throws UsageError with the list otherwise.
DType precision_type(const std::string& name);

/// x in `type`, as an op on the tape ("cast"); x itself if it has that type.  Floating types only.
Tensor cast(const Tensor& x, DType type);

/// What an op of class `p` sees in the place of its input x.  `half`: x in half_type(), for a
/// parameter its working copy where it has one (the gradient still goes to the parameter, in f32);
/// `full`: 16-bit x in f32; `follow`: x.  Undefined, integer and f64 tensors stay as they are.
Tensor autocast(Precision p, const Tensor& x);

/// For ops of class `follow` with several inputs: under mixed precision `x` in the type of
/// `first`, else x.  So a sum of an f32 and an f16 tensor follows its first operand.
Tensor autocast_like(const Tensor& first, const Tensor& x);

}  // namespace bora
