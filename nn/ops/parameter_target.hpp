// SPDX-License-Identifier: Apache-2.0
// Where an op writes the gradient of one of its parameters.
#pragma once

#include "core/op.hpp"
#include "kernels/gradient_mode.hpp"

namespace bora::nn {

/// The sink of input `input` (f32 beside 16-bit values, else the type itself), or a new tensor of
/// the parameter's type in `returned`; `buffer` undefined: the gradient is not wanted.
struct ParameterTarget {
  Tensor buffer, returned;
  kernels::GradientMode mode = kernels::GradientMode::overwrite;

  ParameterTarget(OpContext& c, int input, const Shape& shape, DType type) {
    if (!c.wants(input)) return;
    const DType wide = type == DType::f64 ? DType::f64 : DType::f32;
    Sink sink = c.sink(input, wide);
    if (!sink && wide != type) sink = c.sink(input, type);
    if (sink) {
      buffer = sink.buffer;
      mode = sink.add ? kernels::GradientMode::add : kernels::GradientMode::overwrite;
    } else {
      buffer = returned = c.empty(shape, type);
    }
  }
  ParameterTarget(OpContext& c, int input, const Tensor& parameter)
      : ParameterTarget(c, input, parameter.shape(), parameter.dtype()) {}
};

}  // namespace bora::nn
