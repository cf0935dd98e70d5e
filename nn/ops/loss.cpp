// SPDX-License-Identifier: Apache-2.0
// Losses: a mean over samples of means over each sample's region.  Forward keeps the sums per
// sample; only the prediction gets a gradient.
#include <array>

#include "core/op.hpp"
#include "kernels/loss.hpp"
#include "nn/ops.hpp"
#include "nn/ops/check_labels.hpp"

namespace bora::nn {
namespace {

Tensor loss_scalar(const OpContext& c, const Tensor& prediction) {
  return c.empty({}, prediction.dtype() == DType::f64 ? DType::f64 : DType::f32);
}

struct DataLossOp {
  static constexpr OpInfo info{"data_loss", Precision::full};
  kernels::DataLossAttributes attributes;

  Tensor forward(OpContext& c, const Tensor& prediction, const Tensor& target,
                 const Tensor& region) const {
    BORA_CHECK(prediction.defined() && prediction.rank() >= 2, info.name, ": prediction is ",
               prediction.shape(), ", wanted (N, ..., K)");
    Tensor sums = c.empty({prediction.size(0), 2}, DType::f64);
    kernels::data_loss_sums(c.stream(), attributes, prediction, target, region, sums);
    Tensor loss = loss_scalar(c, prediction);
    kernels::data_loss_value(c.stream(), sums, loss);
    c.save(prediction, target, region, sums);
    return loss;
  }

  std::array<Tensor, 3> backward(OpContext& c, const Tensor& dy) const {
    Tensor dx = c.like(c.saved(0));
    kernels::data_loss_backward(c.stream(), attributes, c.saved(0), c.saved(1), c.saved(2),
                                c.saved(3), dy, dx);
    return {dx, {}, {}};
  }
};

struct GradientLossOp {
  static constexpr OpInfo info{"gradient_loss", Precision::full};
  kernels::GradientLossForm form;

  Tensor forward(OpContext& c, const Tensor& prediction, const Tensor& target,
                 const Tensor& region) const {
    BORA_CHECK(prediction.defined() && prediction.rank() == 5, info.name, ": prediction is ",
               prediction.shape(), ", wanted (N, D, H, W, K)");
    Tensor sums = c.empty({prediction.size(0), 3, 4}, DType::f64);
    kernels::gradient_loss_sums(c.stream(), form, prediction, target, region, sums);
    Tensor loss = loss_scalar(c, prediction);
    kernels::gradient_loss_value(c.stream(), form, sums, loss);
    c.save(prediction, target, region, sums);
    return loss;
  }

  std::array<Tensor, 3> backward(OpContext& c, const Tensor& dy) const {
    Tensor dx = c.like(c.saved(0));
    kernels::gradient_loss_backward(c.stream(), form, c.saved(0), c.saved(1), c.saved(2),
                                    c.saved(3), dy, dx);
    return {dx, {}, {}};
  }
};

struct ClassLossOp {
  static constexpr OpInfo info{"class_loss", Precision::full};
  kernels::ClassLossAttributes attributes;
  const char* name;  // of the public function

  Tensor forward(OpContext& c, const Tensor& logits, const Tensor& labels, const Tensor& region,
                 const Tensor& weights) const {
    BORA_CHECK(logits.defined() && logits.rank() >= 2 && labels.defined(), name, ": logits are ",
               logits.shape(), ", labels ", labels.shape(), ", wanted (N, ..., K) and (N, ...)");
    const DType wide = logits.dtype() == DType::f64 ? DType::f64 : DType::f32;
    Tensor normaliser = c.empty(labels.shape().append(2), wide);
    Tensor sums = c.empty({logits.size(0), logits.size(-1), 5}, DType::f64);
    const kernels::ClassCells cells{labels, region, weights};
    kernels::class_loss_sums(c.stream(), logits, cells, normaliser, sums);
    if (weights.defined())
      check_cells(name, sums, cells);
    else
      check_labels(name, sums);
    Tensor loss = loss_scalar(c, logits);
    kernels::class_loss_value(
        c.stream(), attributes, sums, loss,
        weights.defined() ? kernels::CellWeights::given : kernels::CellWeights::none);
    c.save(logits, labels, region, weights, normaliser, sums);
    return loss;
  }

  std::array<Tensor, 4> backward(OpContext& c, const Tensor& dy) const {
    Tensor dx = c.like(c.saved(0));
    kernels::class_loss_backward(c.stream(), attributes, c.saved(0),
                                 {c.saved(1), c.saved(2), c.saved(3)}, c.saved(4), c.saved(5), dy,
                                 dx);
    return {dx, {}, {}, {}};
  }
};

}  // namespace

Tensor data_loss(const Tensor& prediction, const Tensor& target, const Tensor& region,
                 DataLoss kind, double eps) {
  BORA_CHECK(kind != DataLoss::charbonnier || eps > 0.0, "data_loss: eps is ", eps, ", wanted > 0");
  static_assert(static_cast<int>(DataLoss::charbonnier) ==
                static_cast<int>(kernels::DataLossKind::charbonnier));
  return apply(DataLossOp{{static_cast<kernels::DataLossKind>(kind), eps}}, prediction,
               target.detach(), region);
}

Tensor gradient_loss(const Tensor& prediction, const Tensor& target, const Tensor& region,
                     GradientLoss form) {
  static_assert(static_cast<int>(GradientLoss::edge) ==
                static_cast<int>(kernels::GradientLossForm::edge));
  return apply(GradientLossOp{static_cast<kernels::GradientLossForm>(form)}, prediction,
               target.detach(), region);
}

Tensor dice_cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& region,
                          const DiceOptions& options, const Tensor& weights) {
  return apply(ClassLossOp{{options.cross_entropy_weight, options.dice_weight, options.smooth,
                            options.include_background},
                           "dice_cross_entropy"},
               logits, labels, region, weights.detach());
}

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& region,
                     const Tensor& weights) {
  return apply(ClassLossOp{{1.0, 0.0, 1e-5, true}, "cross_entropy"}, logits, labels, region,
               weights.detach());
}

}  // namespace bora::nn
