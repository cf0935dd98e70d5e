// SPDX-License-Identifier: Apache-2.0
// Checks, and the two calls one after the other where no kernel does both.
#include "kernels/norm_pool.hpp"

#include "kernels/cuda/norm_pool.hpp"
#include "kernels/norm_checks.hpp"
#include "kernels/pool3d.hpp"
#include "kernels/volume.hpp"

namespace bora::kernels {
namespace {

void check(const char* op, const NormShape& shape, const NormInput& in, const Tensor& pooled,
           const Tensor& winner) {
  check_norm(op, shape, in);
  const Volume v = volume_of(in.x, op);
  const Dims3 out = pooled_size(v.size, {});
  const Shape wanted{v.n, out.d, out.h, out.w, v.c};
  check_tensor(pooled, wanted, in.x.dtype(), in.x.device(), op);
  check_tensor(winner, wanted, DType::u8, in.x.device(), op);
}

/// dy and the pooled copy's gradient as one tensor.
Tensor total_gradient(Stream stream, const NormInput& in, const NormPoolGradient& gradient) {
  const bool adds = gradient.dy.defined();
  Tensor total = adds ? gradient.dy.detach().clone()
                      : Tensor::empty(in.x.shape(), in.x.dtype(), in.x.device());
  max_pool3d_backward(stream, {}, gradient.dpooled, gradient.winner,
                      adds ? GradientMode::add : GradientMode::overwrite, total);
  return total;
}

[[maybe_unused]] bool on_device(Stream stream) { return stream.device.type != DeviceType::cpu; }

}  // namespace

void norm_forward_pool(Stream stream, const NormShape& shape, const FusedActivation& activation,
                       const NormInput& in, Tensor& y, Tensor& pooled, Tensor& winner) {
  constexpr const char* kOp = "norm_forward_pool";
  check(kOp, shape, in, pooled, winner);
  check_norm_like(kOp, in.x, y, "y");
  if (on_device(stream)) {
    bool done = false;
    BORA_IF_CUDA(done = cuda::norm_forward_pool(stream, shape, activation, in, y, pooled, winner));
    if (done) return;
  }
  norm_forward(stream, shape, activation, in, y);
  max_pool3d_forward(stream, {}, y, pooled, winner);
}

void norm_pool_backward_sums(Stream stream, const NormShape& shape,
                             const FusedActivation& activation, const NormInput& in,
                             const NormPoolGradient& gradient, Tensor& sums) {
  constexpr const char* kOp = "norm_pool_backward_sums";
  check(kOp, shape, in, gradient.dpooled, gradient.winner);
  if (gradient.dy.defined()) check_norm_like(kOp, in.x, gradient.dy, "dy");
  BORA_CHECK(!in.residual.defined(), kOp, ": has no residual");
  check_norm_tensor(kOp, sums, {shape.samples, 2 * shape.channels}, DType::f64, "sums");
  if (on_device(stream)) {
    bool done = false;
    BORA_IF_CUDA(done =
                     cuda::norm_pool_backward_sums(stream, shape, activation, in, gradient, sums));
    if (done) return;
  }
  Tensor none;
  norm_backward_sums(stream, shape, activation, in, total_gradient(stream, in, gradient), sums,
                     none);
}

void norm_pool_backward_apply(Stream stream, const NormShape& shape,
                              const FusedActivation& activation, const NormInput& in,
                              const NormPoolGradient& gradient, const Tensor& coefficients,
                              Tensor& dx) {
  constexpr const char* kOp = "norm_pool_backward_apply";
  check(kOp, shape, in, gradient.dpooled, gradient.winner);
  if (gradient.dy.defined()) check_norm_like(kOp, in.x, gradient.dy, "dy");
  BORA_CHECK(!in.residual.defined(), kOp, ": has no residual");
  check_norm_like(kOp, in.x, dx, "dx");
  check_norm_tensor(kOp, coefficients, {shape.samples, shape.groups, 2}, norm_parameter_type(in.x),
                    "coefficients");
  if (on_device(stream)) {
    bool done = false;
    BORA_IF_CUDA(done = cuda::norm_pool_backward_apply(stream, shape, activation, in, gradient,
                                                       coefficients, dx));
    if (done) return;
  }
  norm_backward_apply(stream, shape, activation, in, total_gradient(stream, in, gradient), Tensor(),
                      coefficients, dx);
}

}  // namespace bora::kernels
