// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/deep_supervision.hpp"

#include <cmath>

#include "kernels/masked_pool.hpp"
#include "nn/ops.hpp"

namespace bora::unet3d {

std::vector<double> level_weights(int64_t n_heads) {
  BORA_CHECK(n_heads >= 0, "level_weights: ", n_heads, " heads");
  std::vector<double> weights;
  const double sum = 2.0 - std::ldexp(1.0, -static_cast<int>(n_heads));
  for (int l = 0; l <= static_cast<int>(n_heads); ++l) weights.push_back(std::ldexp(1.0, -l) / sum);
  return weights;
}

LevelTarget target_of_level(const Tensor& target, const Tensor& region, int64_t level) {
  BORA_CHECK(level >= 1 && level < 16, "target_of_level: level ", level, ", wanted 1 or more");
  BORA_CHECK(target.rank() == 5, "target_of_level: wants (N, D, H, W, K), got ", target.shape());
  const Dims3 block = Dims3::all(int64_t{1} << level);
  const Dims3 to = kernels::blocks_of({target.size(1), target.size(2), target.size(3)}, block);
  LevelTarget pooled{Tensor::empty({target.size(0), to.d, to.h, to.w, target.size(4)},
                                   target.dtype(), target.device()),
                     Tensor::empty({target.size(0), to.d, to.h, to.w}, DType::u8, target.device())};
  kernels::masked_mean_pool(target.stream(), block, target, region, pooled.target, pooled.region);
  return pooled;
}

std::vector<std::string> deep_loss_names(const LossConfig& loss, const ModelConfig& model) {
  std::vector<std::string> names;
  const std::vector<std::string> top = loss_names(loss);
  for (int64_t level = 1; level <= model.deep_supervision; ++level)
    for (size_t part = 1; part < top.size(); ++part)  // without the total
      names.push_back(top[part] + "_level" + std::to_string(level));
  return names;
}

Loss deep_loss(const LossConfig& config, UNet3d& model, const Tensor& input, const Tensor& target,
               const Tensor& region) {
  const int64_t n_heads = model.config().deep_supervision;
  BORA_CHECK(n_heads > 0, "deep_loss: the network has no head below the top");
  std::vector<Tensor> features = model.feature_levels(input);
  const std::vector<double> weights = level_weights(n_heads);
  Loss all = compute_loss(config, model.head(), features[0], target, region);
  all.total = nn::scale(all.total, weights[0]);
  for (int64_t level = 1; level <= n_heads; ++level) {
    const auto l = static_cast<size_t>(level);
    const LevelTarget coarse = target_of_level(target, region, level);
    const Loss own =
        compute_loss(config, model.deep_head(level), features[l], coarse.target, coarse.region);
    all.total = nn::add(all.total, nn::scale(own.total, weights[l]));
    for (size_t part = 1; part < own.parts.size(); ++part)
      all.parts.emplace_back(own.parts[part].first + "_level" + std::to_string(level),
                             own.parts[part].second);
  }
  all.parts[0].second = all.total.detach();
  return all;
}

}  // namespace bora::unet3d
