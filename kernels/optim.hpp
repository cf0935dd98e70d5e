// SPDX-License-Identifier: Apache-2.0
// Fused optimizer updates on flat ranges of parameters: one pass reads and writes everything.
#pragma once

#include "core/tensor.hpp"

namespace bora::kernels {

/// One update by AdamW.  With g = gradient_factor * gradient and t = step:
///   p = p (1 - learning_rate weight_decay);  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 -
///   beta2) g^2 p = p - learning_rate / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps)
/// Source: Loshchilov and Hutter 2019, algorithm 2, with the learning rate as schedule (as
/// PyTorch).
struct AdamWUpdate {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;     ///< decoupled: moves p by learning_rate * weight_decay
  int64_t step = 1;              ///< of this update: 1 for the first
  double gradient_factor = 1.0;  ///< inverse loss scale times clip factor
};

/// One update by stochastic gradient descent.  With g = gradient_factor * gradient + weight_decay
/// p:
///   b = momentum b + g;  p = p - learning_rate (g + momentum b) if nesterov, else learning_rate b.
/// Source: Sutskever et al. 2013 in PyTorch's form.
struct SgdUpdate {
  double learning_rate = 1e-2;
  double momentum = 0.0;
  double weight_decay = 0.0;  ///< coupled: joins the gradient
  bool nesterov = false;
  double gradient_factor = 1.0;
};

/// What an update works on: equal numbers of elements, same device.
struct OptimBuffers {
  Tensor gradient;  ///< f32, f16 or bf16 (f64 with an f64 master)
  Tensor master;    ///< f32, or f64 on the CPU (for tests); read and written
  Tensor slot0;     ///< type of master: AdamW's m, SGD's momentum b (may be undefined if it is 0)
  Tensor slot1;     ///< type of master: AdamW's v; undefined for SGD
  Tensor working;   ///< f16 or bf16 copy of master, written; or undefined
  Tensor skip;      ///< () u8: not 0 = nothing is written; or undefined.  Read on the device.
  /// (kStepScalars) f64 of kernels/step_scalars.hpp, or undefined.  If given, learning rate, beta1
  /// or momentum, step and gradient_factor of the update are not looked at: they, the inverse loss
  /// scale and whether to skip are read on the device.  The gradient is multiplied by the inverse
  /// loss scale first, then by the clip factor, each product rounded to the master's type.
  Tensor scalars{};
};

/// Throws Error if a shape, type or hyperparameter does not fit.  Slots start as 0.
void adamw(Stream stream, const AdamWUpdate& update, OptimBuffers& buffers);
void sgd(Stream stream, const SgdUpdate& update, OptimBuffers& buffers);

}  // namespace bora::kernels
