// SPDX-License-Identifier: Apache-2.0
// Optimizers over a ParameterArena: one fused pass over the flat buffers.
#pragma once

#include <memory>
#include <string>

#include "core/state.hpp"
#include "nn/parameter_arena.hpp"

namespace bora::nn {

/// What changes from update to update.
struct UpdateInput {
  double lr = 0.0;
  double momentum =
      -1.0;  ///< beta1 of AdamW, momentum of SGD; negative: the optimizer's own setting
  double gradient_factor = 1;  ///< gradients are multiplied by it first (clipping, unscaling)
};

/// Owns its moment buffers; reads the arena's gradients, writes its values.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual void step(const UpdateInput& input) = 0;
  /// The same without the host: rate, beta1 or momentum, bias corrections, clip factor, inverse
  /// loss scale and whether to skip are read on the device, from `scalars` (kStepScalars) f64 of
  /// kernels::step_scalars.  Does not move updates(): the host does not know whether it was
  /// skipped. See set_updates().
  virtual void step_from(const Tensor& scalars) = 0;
  /// Updates made so far, as far as the host knows.
  virtual int64_t updates() const = 0;
  /// What the host has learned of updates made by step_from().
  virtual void set_updates(int64_t updates) = 0;
  /// The optimizer's own beta1 (AdamW) or momentum (SGD), and beta2 (SGD: 0).
  virtual double own_momentum() const = 0;
  virtual double own_beta2() const = 0;
  virtual void state(StateVisitor& visitor) = 0;
};

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = 1e-4;
  bool decay_all = true;  ///< also norms and biases, as torch.optim.AdamW(model.parameters()) does
};
/// m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; p = p (1 - lr wd) - lr (m / (1-b1^t)) / (sqrt(v /
/// (1-b2^t)) + eps). Where beta1 is cycled, 1 - b1^t uses the current b1, as torch does.  Source:
/// Loshchilov and Hutter 2019.
std::unique_ptr<Optimizer> make_adamw(ParameterArena& arena, const AdamWOptions& options);

struct SgdOptions {
  double momentum = 0.0;
  bool nesterov = false;
  double weight_decay = 0.0;  ///< added to the gradient (L2)
  bool decay_all = true;
};
/// g += wd p; buf = momentum buf + g (the first: g); p -= lr (nesterov ? g + momentum buf : buf).
std::unique_ptr<Optimizer> make_sgd(ParameterArena& arena, const SgdOptions& options);

/// Norm of all gradients and whether they can be used.
struct GradientNorm {
  double norm =
      0.0;  ///< sqrt of the sum of squares over all parameters; NaN or inf if any gradient is
  int64_t non_finite = 0;  ///< count of NaN and inf
};
GradientNorm gradient_norm(const ParameterArena& arena);
/// The same from the statistics of kernels::grad_stats.
GradientNorm gradient_norm_of(const Tensor& stats);
/// The factor that brings `norm` down to `max_norm`: min(1, max_norm / (norm + 1e-6)); 1 if
/// max_norm is 0 (off).
double clip_factor(double norm, double max_norm);
/// The name of the first parameter with a non-finite gradient, in the order in which backward
/// computes them; empty if none.
std::string first_non_finite_gradient(const ParameterArena& arena);

}  // namespace bora::nn
