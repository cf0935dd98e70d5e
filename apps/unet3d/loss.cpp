// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/loss.hpp"

#include "core/precision.hpp"
#include "nn/ops.hpp"

namespace bora::unet3d {
namespace {

nn::DataLoss data_loss_kind(const std::string& name) {
  if (name == "charbonnier") return nn::DataLoss::charbonnier;
  if (name == "mse") return nn::DataLoss::mse;
  if (name == "mae") return nn::DataLoss::mae;
  throw UsageError("loss.kind '" + name + "': wanted charbonnier, mse or mae");
}

nn::GradientLoss gradient_loss_form(const std::string& name) {
  if (name == "plain") return nn::GradientLoss::plain;
  if (name == "inverse") return nn::GradientLoss::inverse;
  if (name == "edge") return nn::GradientLoss::edge;
  throw UsageError("loss.gradient '" + name + "': wanted plain, inverse or edge");
}

}  // namespace

std::vector<std::string> loss_names(const LossConfig& config) {
  std::vector<std::string> names{"loss", config.kind};
  if (config.gradient_weight > 0) names.push_back("gradient_" + config.gradient);
  return names;
}

Loss compute_loss(const LossConfig& config, const Tensor& result, const Tensor& target,
                  const Tensor& region) {
  const Tensor prediction = autocast(Precision::full, result);  // once for both losses
  const std::vector<std::string> names = loss_names(config);
  Loss loss;
  const Tensor data =
      nn::data_loss(prediction, target, region, data_loss_kind(config.kind), config.eps);
  loss.total = data;
  Tensor gradient;
  if (config.gradient_weight > 0) {
    gradient = nn::gradient_loss(prediction, target, region, gradient_loss_form(config.gradient));
    loss.total = nn::add(data, nn::scale(gradient, config.gradient_weight));
  }
  loss.parts.emplace_back(names[0], loss.total.detach());
  loss.parts.emplace_back(names[1], data.detach());
  if (gradient.defined()) loss.parts.emplace_back(names[2], gradient.detach());
  return loss;
}

Loss compute_loss(const LossConfig& config, const nn::Conv3d& head, const Tensor& features,
                  const Tensor& target, const Tensor& region) {
  if (features.device().type == DeviceType::cpu || config.gradient_weight > 0)
    return compute_loss(config, head.forward(features), target, region);
  const std::vector<std::string> names = loss_names(config);
  Loss loss;
  loss.total = nn::head_data_loss(features, head.weight(), head.bias(), target, region,
                                  data_loss_kind(config.kind), config.eps);
  for (const std::string& name : names) loss.parts.emplace_back(name, loss.total.detach());
  return loss;
}

Loss compute_loss(const LossConfig& config, UNet3d& model, const Tensor& input,
                  const Tensor& target, const Tensor& region) {
  return compute_loss(config, model.head(), model.features(input), target, region);
}

}  // namespace bora::unet3d
