// SPDX-License-Identifier: Apache-2.0
// Group, instance and batch norm: one family, which differs in what shares statistics.
#include <array>

#include "core/op.hpp"
#include "core/recompute.hpp"
#include "kernels/norm.hpp"
#include "nn/ops.hpp"
#include "nn/ops/parameter_target.hpp"

namespace bora::nn {
namespace {

using kernels::ActivationKind;
using kernels::FusedActivation;
using kernels::NormShape;

FusedActivation fused(const char* op, const NormFusion& fusion) {
  BORA_CHECK(fusion.activation != Activation::leaky_relu || fusion.slope >= 0.0, op,
             ": slope of leaky_relu is ", fusion.slope, ", wanted >= 0");
  static_assert(static_cast<int>(Activation::tanh) == static_cast<int>(ActivationKind::tanh));
  return {static_cast<ActivationKind>(fusion.activation), fusion.slope};
}

DType parameter_type(const Tensor& x) { return x.dtype() == DType::f64 ? DType::f64 : DType::f32; }

void check_inputs(const char* op, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const Tensor& residual) {
  BORA_CHECK(x.defined() && x.rank() >= 2 && is_float(x.dtype()), op, ": x is ", x.shape(), " ",
             x.dtype(), ", wanted (N, ..., C) of a floating type");
  const Shape channels{x.size(-1)};
  BORA_CHECK(channels[0] > 0, op, ": x is ", x.shape(), ", wanted at least one channel");
  const auto check_parameter = [&](const Tensor& t, const char* name) {
    BORA_CHECK(t.defined() && t.shape() == channels && t.dtype() == parameter_type(x), op, ": ",
               name, " is ", t.shape(), " ", t.dtype(), ", wanted ", channels, " ",
               parameter_type(x), " for x ", x.shape(), " ", x.dtype());
  };
  check_parameter(gamma, "gamma");
  check_parameter(beta, "beta");
  BORA_CHECK(
      !residual.defined() || (residual.shape() == x.shape() && residual.dtype() == x.dtype()), op,
      ": residual is ", residual.shape(), " ", residual.dtype(), ", x is ", x.shape(), " ",
      x.dtype());
}

/// Saved by every norm, in this order.
enum Saved { kX, kGamma, kBeta, kMoments, kStatistics, kResidual };

kernels::NormInput saved_input(const OpContext& c) {
  return {c.saved(kX), c.saved(kStatistics), c.saved(kGamma), c.saved(kBeta), c.saved(kResidual)};
}

/// Backward for inputs (x, gamma, beta, residual).  `join_sums(sums)` makes the sums those of all
/// the rows that share statistics; `from_x` false: the statistics do not depend on x.
template <class JoinSums>
std::array<Tensor, 4> norm_backward(OpContext& c, const NormShape& shape,
                                    const FusedActivation& activation, const Tensor& dy,
                                    bool from_x, JoinSums&& join_sums) {
  const kernels::NormInput in = saved_input(c);
  const Stream stream = c.stream();
  const bool linear = activation.kind == ActivationKind::identity;
  // dz is the residual's gradient.  Else it is kept in dx between the passes where it is dear to
  // compute again (an exponential), unless storing would round it.
  const bool dear = activation.kind != ActivationKind::identity &&
                    activation.kind != ActivationKind::relu &&
                    activation.kind != ActivationKind::leaky_relu;
  const bool exact = in.x.dtype() == DType::f32 || in.x.dtype() == DType::f64;
  Tensor dx = c.wants(0) ? c.like(in.x) : Tensor();
  Tensor dz;
  if (c.wants(3) && !linear)
    dz = c.like(in.x);
  else if (dx.defined() && dear && exact)
    dz = dx;

  Tensor sums = c.empty({shape.samples, 2 * shape.channels}, DType::f64);
  kernels::norm_backward_sums(stream, shape, activation, in, dy, sums, dz);
  ParameterTarget gamma(c, 1, in.gamma), beta(c, 2, in.beta);
  kernels::norm_parameter_gradients(stream, shape, sums, gamma.buffer, gamma.mode, beta.buffer,
                                    beta.mode);
  if (dx.defined()) {
    Tensor coefficients = c.empty({shape.samples, shape.groups, 2}, parameter_type(in.x));
    if (from_x) {
      join_sums(sums);
      kernels::norm_backward_coefficients(stream, shape, sums, c.saved(kMoments), in.statistics,
                                          in.gamma, coefficients);
    } else {
      coefficients.fill(0.0);
    }
    kernels::norm_backward_apply(stream, shape, activation, in, dy, dz, coefficients, dx);
  }
  const Tensor dresidual = !c.wants(3) ? Tensor() : linear ? dy : dz;
  return {dx, gamma.returned, beta.returned, dresidual};
}

struct GroupNorm {
  static constexpr OpInfo info{"group_norm", Precision::follow};
  int64_t groups;
  double eps;
  FusedActivation activation;
  NormShape shape{};

  Tensor forward(OpContext& c, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                 const Tensor& residual) {
    int64_t rows = 1;
    for (int axis = 1; axis + 1 < x.rank(); ++axis) rows *= x.size(axis);
    shape = {x.size(0), rows, x.size(-1), groups};
    Tensor moments = c.empty({shape.samples, 1 + 2 * shape.channels}, DType::f64);
    kernels::norm_moments(c.stream(), shape, x, moments);
    Tensor statistics = c.empty({shape.samples, groups, 3}, parameter_type(x));
    kernels::norm_statistics(c.stream(), shape, eps, moments, statistics);
    Tensor y = c.like(x);
    kernels::norm_forward(c.stream(), shape, activation, {x, statistics, gamma, beta, residual}, y);
    c.save(x, gamma, beta, moments, statistics);
    c.save(activation.kind == ActivationKind::identity ? Tensor() : residual);
    return y;
  }

  std::array<Tensor, 4> backward(OpContext& c, const Tensor& dy) const {
    return norm_backward(c, shape, activation, dy, true, [](Tensor&) {});
  }
};

struct BatchNorm {
  static constexpr OpInfo info{"batch_norm", Precision::follow};
  BatchNormState* state;  // used in forward only
  bool training;
  double eps;
  FusedActivation activation;
  Collective* sync;
  NormShape shape{};

  bool joins() const { return sync && sync->size() > 1; }

  /// Moments of the joined batch, checked; running statistics updated.
  Tensor training_moments(OpContext& c, const Tensor& x) const {
    Tensor moments = c.empty({1, 1 + 2 * shape.channels}, DType::f64);
    kernels::norm_moments(c.stream(), shape, x, moments);
    if (joins()) {
      const int64_t width = 1 + 2 * shape.channels;
      Tensor parts = c.empty({sync->size(), width}, DType::f64);
      sync->all_gather(moments.reshape({width}), parts, "batch_norm.forward");
      kernels::norm_join_moments(c.stream(), parts, moments);
    }
    // A joined count is on the device; reading it there would stall the step, so only the CPU
    // looks.
    int64_t count = shape.rows;
    if (joins())
      count =
          x.device().type == DeviceType::cpu ? static_cast<int64_t>(moments.data<double>()[0]) : 2;
    BORA_CHECK(count != 1, info.name, ": x is ", x.shape(),
               ": one value per channel has no variance to train with; wanted a larger batch or "
               "volume, group norm, or sync over ranks");
    if (!recomputing())  // else this batch is in them already
      kernels::norm_update_running(c.stream(), state->momentum, moments, state->running_mean,
                                   state->running_var);
    return moments;
  }

  Tensor forward(OpContext& c, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                 const Tensor& residual) {
    const int64_t n_channels = x.size(-1);
    shape = {1, x.numel() / n_channels, n_channels, n_channels};
    Tensor statistics = c.empty({1, n_channels, 3}, parameter_type(x));
    Tensor moments;
    if (training) {
      moments = training_moments(c, x);
      kernels::norm_statistics(c.stream(), shape, eps, moments, statistics);
    } else {
      kernels::norm_running_statistics(c.stream(), eps, state->running_mean, state->running_var,
                                       statistics);
    }
    state = nullptr;
    Tensor y = c.like(x);
    kernels::norm_forward(c.stream(), shape, activation, {x, statistics, gamma, beta, residual}, y);
    c.save(x, gamma, beta, moments, statistics);
    c.save(activation.kind == ActivationKind::identity ? Tensor() : residual);
    return y;
  }

  std::array<Tensor, 4> backward(OpContext& c, const Tensor& dy) const {
    return norm_backward(c, shape, activation, dy, training, [&](Tensor& sums) {
      if (joins()) sync->all_reduce(sums, ReduceOp::sum, "batch_norm.backward");
    });
  }
};

}  // namespace

Tensor group_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, int64_t groups,
                  double eps, const NormFusion& fusion) {
  const Tensor residual = autocast_like(x, fusion.residual);
  check_inputs("group_norm", x, gamma, beta, residual);
  BORA_CHECK(groups > 0 && x.size(-1) % groups == 0, "group_norm: ", groups, " groups, x is ",
             x.shape(), ": the number of groups must divide the channels");
  BORA_CHECK(eps > 0.0, "group_norm: eps is ", eps, ", wanted > 0");
  return apply(GroupNorm{groups, eps, fused("group_norm", fusion)}, x, gamma, beta, residual);
}

Tensor instance_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps,
                     const NormFusion& fusion) {
  check_inputs("instance_norm", x, gamma, beta, autocast_like(x, fusion.residual));
  return group_norm(x, gamma, beta, x.size(-1), eps, fusion);
}

Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, BatchNormState& state,
                  bool training, double eps, const NormFusion& fusion, Collective* sync) {
  constexpr const char* kOp = "batch_norm";
  const Tensor residual = autocast_like(x, fusion.residual);
  check_inputs(kOp, x, gamma, beta, residual);
  BORA_CHECK(eps > 0.0, kOp, ": eps is ", eps, ", wanted > 0");
  BORA_CHECK(state.momentum >= 0.0 && state.momentum <= 1.0, kOp, ": momentum is ", state.momentum,
             ", wanted in [0, 1]");
  for (const Tensor* t : {&state.running_mean, &state.running_var})
    BORA_CHECK(t->defined() && t->shape() == gamma.shape() && t->dtype() == gamma.dtype() &&
                   t->device() == x.device(),
               kOp, ": a running statistic is ", t->shape(), " ", t->dtype(), ", wanted ",
               gamma.shape(), " ", gamma.dtype(), " on ", x.device());
  BORA_CHECK(!sync || sync->device_type() == x.device().type, kOp,
             ": x and the ranks' collective are on different kinds of device");
  return apply(BatchNorm{&state, training, eps, fused(kOp, fusion), sync}, x, gamma, beta,
               residual);
}

}  // namespace bora::nn
