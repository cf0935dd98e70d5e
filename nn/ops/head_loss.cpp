// SPDX-License-Identifier: Apache-2.0
// A head and its loss as one op.  Forward keeps features, parameters and the sums per sample; the
// outputs are computed again in backward.
#include "kernels/head_loss.hpp"

#include <array>

#include "core/op.hpp"
#include "nn/ops.hpp"
#include "nn/ops/check_labels.hpp"
#include "nn/ops/parameter_target.hpp"

namespace bora::nn {
namespace {

Tensor loss_scalar(const OpContext& c, const Tensor& x) {
  return c.empty({}, x.dtype() == DType::f64 ? DType::f64 : DType::f32);
}

/// For the profile: one pass of the convolution.
void add_flops(const Tensor& x, const Tensor& w, int passes) {
  profile_add_work(2.0 * static_cast<double>(x.numel()) * static_cast<double>(w.size(0)) * passes,
                   0);
}

/// Where the gradients of inputs 0 to 2 go; compute(gradients) fills them.
template <class Compute>
std::array<Tensor, 5> head_backward(OpContext& c, const Tensor& x, const Tensor& w,
                                    const Compute& compute) {
  add_flops(x, w, 1 + c.wants(0) + c.wants(1));
  const ParameterTarget dw(c, 1, w), db(c, 2, Shape{w.size(0)}, w.dtype());
  kernels::HeadGradients out{.dx = c.wants(0) ? c.like(x) : Tensor(),
                             .dw = dw.buffer,
                             .dw_mode = dw.mode,
                             .db = db.buffer,
                             .db_mode = db.mode};
  compute(out);
  return {out.dx, dw.returned, db.returned, Tensor(), Tensor()};
}

struct HeadDataLoss {
  static constexpr OpInfo info{"head_data_loss", Precision::follow};
  kernels::DataLossAttributes attributes;

  Tensor forward(OpContext& c, const Tensor& x, const Tensor& w, const Tensor& bias,
                 const Tensor& target, const Tensor& region) const {
    Tensor sums = c.empty({x.size(0), 2}, DType::f64);
    add_flops(x, w, 1);
    kernels::head_data_loss_sums(c.stream(), attributes, {x, w, bias}, target, region, sums);
    Tensor loss = loss_scalar(c, x);
    kernels::data_loss_value(c.stream(), sums, loss);
    c.save(x, w, bias, target, region, sums);
    return loss;
  }

  std::array<Tensor, 5> backward(OpContext& c, const Tensor& dy) const {
    return head_backward(c, c.saved(0), c.saved(1), [&](kernels::HeadGradients& out) {
      kernels::head_data_loss_backward(c.stream(), attributes, {c.saved(0), c.saved(1), c.saved(2)},
                                       c.saved(3), c.saved(4), c.saved(5), dy, out);
    });
  }
};

struct HeadClassLoss {
  static constexpr OpInfo info{"head_class_loss", Precision::follow};
  kernels::ClassLossAttributes attributes;

  Tensor forward(OpContext& c, const Tensor& x, const Tensor& w, const Tensor& bias,
                 const Tensor& labels, const Tensor& region) const {
    Tensor sums = c.empty({x.size(0), w.size(0), 5}, DType::f64);
    add_flops(x, w, 1);
    kernels::head_class_loss_sums(c.stream(), {x, w, bias}, labels, region, sums);
    check_labels("head_dice_cross_entropy", sums);
    Tensor loss = loss_scalar(c, x);
    kernels::class_loss_value(c.stream(), attributes, sums, loss);
    c.save(x, w, bias, labels, region, sums);
    return loss;
  }

  std::array<Tensor, 5> backward(OpContext& c, const Tensor& dy) const {
    return head_backward(c, c.saved(0), c.saved(1), [&](kernels::HeadGradients& out) {
      kernels::head_class_loss_backward(c.stream(), attributes,
                                        {c.saved(0), c.saved(1), c.saved(2)}, c.saved(3),
                                        c.saved(4), c.saved(5), dy, out);
    });
  }
};

void check_head(const char* op, const Tensor& x, const Tensor& w) {
  BORA_CHECK(x.defined() && x.rank() == 5 && w.defined() && w.rank() == 5, op, ": features are ",
             x.shape(), ", weight is ", w.shape(), ", wanted (N, D, H, W, I) and (O, 1, 1, 1, I)");
}

/// The head's inputs in the type that a convolution sees them in.
Tensor as_half(const Tensor& t) { return autocast(Precision::half, t); }

}  // namespace

Tensor head_data_loss(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& target,
                      const Tensor& region, DataLoss kind, double eps) {
  constexpr const char* kOp = "head_data_loss";
  check_head(kOp, x, w);
  BORA_CHECK(target.defined(), kOp, ": the target is undefined");
  BORA_CHECK(kind != DataLoss::charbonnier || eps > 0.0, kOp, ": eps is ", eps, ", wanted > 0");
  return apply(HeadDataLoss{{static_cast<kernels::DataLossKind>(kind), eps}}, as_half(x),
               as_half(w), as_half(b), autocast(Precision::full, target.detach()), region);
}

Tensor head_dice_cross_entropy(const Tensor& x, const Tensor& w, const Tensor& b,
                               const Tensor& labels, const Tensor& region,
                               const DiceOptions& options) {
  check_head("head_dice_cross_entropy", x, w);
  return apply(HeadClassLoss{{options.cross_entropy_weight, options.dice_weight, options.smooth,
                              options.include_background}},
               as_half(x), as_half(w), as_half(b), labels, region);
}

}  // namespace bora::nn
