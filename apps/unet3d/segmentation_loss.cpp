// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/segmentation_loss.hpp"

#include "core/error.hpp"
#include "core/precision.hpp"
#include "kernels/loss.hpp"
#include "nn/ops.hpp"

namespace bora::unet3d {
namespace {

constexpr int64_t kSums = 5;  // numbers of a class in class_loss_sums

nn::DiceOptions dice_alone(const SegmentationConfig& config) {
  return {.dice_weight = 1,
          .cross_entropy_weight = 0,
          .smooth = config.smooth,
          .include_background = config.include_background};
}

}  // namespace

std::vector<std::string> loss_names(const SegmentationConfig& config) {
  std::vector<std::string> names{"loss"};
  if (config.dice_weight > 0) names.emplace_back("dice_loss");
  if (config.cross_entropy_weight > 0) names.emplace_back("cross_entropy");
  return names;
}

void check_loss(const SegmentationConfig& config) {
  if (config.dice_weight == 0 && config.cross_entropy_weight == 0)
    throw UsageError(
        "segmentation.dice_weight and segmentation.cross_entropy_weight are both 0: there is "
        "nothing to learn from");
}

train::Loss compute_loss(const SegmentationConfig& config, const Tensor& result,
                         const Tensor& labels, const Tensor& region, const Tensor& weights) {
  check_loss(config);
  BORA_CHECK(labels.defined() && labels.rank() == 5 && labels.size(4) == 1,
             "segmentation loss: labels ", labels.shape(), ", wanted (N, D, H, W, 1)");
  const Tensor logits = autocast(Precision::full, result);  // once for both losses
  const Tensor classes =
      labels.reshape({labels.size(0), labels.size(1), labels.size(2), labels.size(3)});
  // Two ops rather than one, so that each part can be told; beside a network their time is nothing.
  train::Loss loss;
  std::vector<Tensor> parts;
  const auto join = [&](const Tensor& part, double weight) {
    parts.push_back(part);
    const Tensor weighted = weight == 1 ? part : nn::scale(part, weight);
    loss.total = loss.total.defined() ? nn::add(loss.total, weighted) : weighted;
  };
  if (config.dice_weight > 0)
    join(nn::dice_cross_entropy(logits, classes, region, dice_alone(config), weights),
         config.dice_weight);
  if (config.cross_entropy_weight > 0)
    join(nn::cross_entropy(logits, classes, region, weights), config.cross_entropy_weight);
  const std::vector<std::string> names = loss_names(config);
  loss.parts.emplace_back(names[0], loss.total.detach());
  for (size_t i = 0; i < parts.size(); ++i)
    loss.parts.emplace_back(names[i + 1], parts[i].detach());
  return loss;
}

CaseLoss::CaseLoss(int64_t n_classes) : sums_(Tensor::zeros({1, n_classes, kSums}, DType::f64)) {}

void CaseLoss::add(const Tensor& logits, const Tensor& labels, const Tensor& region,
                   const Tensor& weights) {
  const int64_t cells = labels.numel(), classes = sums_.size(1);
  BORA_CHECK(logits.rank() == 4 && logits.size(3) == classes && logits.numel() == cells * classes,
             "CaseLoss: logits ", logits.shape(), ", labels ", labels.shape(), ", ", classes,
             " classes");
  Tensor normaliser = Tensor::empty({1, cells, 2}, DType::f32),
         sums = Tensor::empty(sums_.shape(), DType::f64);
  const auto in_a_row = [&](const Tensor& t) { return t.defined() ? t.reshape({1, cells}) : t; };
  kernels::class_loss_sums(
      logits.stream(), logits.reshape({1, cells, classes}),
      {.labels = in_a_row(labels), .region = in_a_row(region), .weights = in_a_row(weights)},
      normaliser, sums);
  weighted_ = weights.defined();
  for (int64_t i = 0; i < sums.numel(); ++i) sums_.data<double>()[i] += sums.data<double>()[i];
}

train::Loss CaseLoss::value(const SegmentationConfig& config) const {
  check_loss(config);
  const double* s = sums_.data<double>();
  double labelled = 0;
  for (int64_t k = 0; k < sums_.size(1); ++k) labelled += s[k * kSums + 2];
  BORA_CHECK(weighted_ ? s[4] >= 0 : labelled == s[4],
             "segmentation loss: a label is not below the number of classes, ", sums_.size(1),
             weighted_ ? ", or a weight is negative or not finite" : "");
  const auto value = [&](double dice, double cross_entropy) {
    Tensor loss = Tensor::empty({}, DType::f32);
    kernels::class_loss_value(sums_.stream(),
                              {.ce_weight = cross_entropy,
                               .dice_weight = dice,
                               .smooth = config.smooth,
                               .include_background = config.include_background},
                              sums_, loss,
                              weighted_ ? kernels::CellWeights::given : kernels::CellWeights::none);
    return loss;
  };
  train::Loss loss;
  loss.total = value(config.dice_weight, config.cross_entropy_weight);
  const std::vector<std::string> names = loss_names(config);
  loss.parts.emplace_back(names[0], loss.total);
  if (config.dice_weight > 0) loss.parts.emplace_back("dice_loss", value(1, 0));
  if (config.cross_entropy_weight > 0) loss.parts.emplace_back("cross_entropy", value(0, 1));
  return loss;
}

}  // namespace bora::unet3d
