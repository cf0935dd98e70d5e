// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/model.hpp"

#include <algorithm>

#include "core/tape.hpp"
#include "nn/ops.hpp"
#include "nn/recompute.hpp"

namespace bora::unet3d {
namespace {

constexpr Dims3 kOne = Dims3::all(1), kTwo = Dims3::all(2), kThree = Dims3::all(3);

nn::Conv3d conv3(int64_t in, int64_t out) {
  return {in, out, kThree, nn::Bias::no, nn::Conv3dOptions{.padding = kOne}};
}

nn::Activation activation_of(const ModelConfig& config) {
  if (config.activation == "silu") return nn::Activation::silu;
  if (config.activation == "leaky_relu") return nn::Activation::leaky_relu;
  throw UsageError("model.activation '" + config.activation + "': wanted silu or leaky_relu");
}

Dims3 spatial(const Tensor& x) { return {x.size(1), x.size(2), x.size(3)}; }

}  // namespace

int64_t level_channels(const ModelConfig& config, int64_t level) {
  BORA_CHECK(level >= 0 && level <= config.levels, "level_channels: level ", level,
             ", wanted 0 to ", config.levels);
  const int64_t doubled = config.base << level;
  return config.max_channels > 0 ? std::min(doubled, config.max_channels) : doubled;
}

ResConvBlock::ResConvBlock(int64_t in, int64_t out, const ModelConfig& config)
    : conv1_(conv3(in, out)),
      conv2_(conv3(out, out)),
      norm1_(nn::norm_kind(config.norm), out),
      norm2_(nn::norm_kind(config.norm), out),
      activation_(activation_of(config)),
      dropout_(config.dropout) {
  if (in != out) shortcut_ = nn::Conv3d::linear_gain(in, out, kOne, nn::Bias::no);
}

Tensor ResConvBlock::forward(const Tensor& x) {
  Tensor h = norm1_.forward(conv1_.forward(x), {.activation = activation_, .slope = kLeakySlope});
  if (training() && dropout_ > 0) h = nn::dropout(h, dropout_);
  const Tensor residual = shortcut_ ? shortcut_->forward(x) : x;
  return norm2_.forward(conv2_.forward(h),
                        {.activation = activation_, .slope = kLeakySlope, .residual = residual});
}

void ResConvBlock::visit(nn::Visitor& v) {
  v.child("conv1", conv1_);
  v.child("norm1", norm1_);
  if (shortcut_) v.child("shortcut", *shortcut_);
  v.child("conv2", conv2_);
  v.child("norm2", norm2_);
}

void ResConvBlock::set_collective(Collective* ranks) {
  norm1_.set_collective(ranks);
  norm2_.set_collective(ranks);
}

UNet3d::UNet3d(int64_t in_channels, int64_t out_channels, const ModelConfig& config)
    : in_channels_(in_channels),
      out_channels_(out_channels),
      config_(config),
      head_(nn::Conv3d::linear_gain(level_channels(config, 0), out_channels, kOne, nn::Bias::yes)) {
  BORA_CHECK(config.levels >= 1 && config.levels <= 6, "UNet3d: levels ", config.levels,
             ", wanted 1 to 6");
  if (config.deep_supervision < 0 || config.deep_supervision >= config.levels)
    throw UsageError(detail::join(
        "model.deep_supervision ", config.deep_supervision, ": wanted 0 to ", config.levels - 1,
        ", the decoder levels below the top of model.levels ", config.levels));
  int64_t channels = in_channels;
  for (int64_t level = 0; level < config.levels; ++level) {
    const int64_t width = level_channels(config, level), below = level_channels(config, level + 1);
    encoder_.push_back(std::make_unique<ResConvBlock>(channels, width, config));
    decoder_.push_back(std::make_unique<ResConvBlock>(2 * width, width, config));
    Up up;
    if (config.up == "transposed") {
      up.transposed.emplace(below, width, kTwo, nn::Bias::yes, nn::Conv3dOptions{.stride = kTwo});
    } else {
      BORA_CHECK(config.up == "trilinear", "UNet3d: up '", config.up,
                 "', wanted trilinear or transposed");
      up.conv = nn::Conv3d::linear_gain(below, width, kOne, nn::Bias::yes);
    }
    up_.push_back(std::move(up));
    channels = width;
  }
  bottleneck_ =
      std::make_unique<ResConvBlock>(channels, level_channels(config, config.levels), config);
  for (int64_t level = 1; level <= config.deep_supervision; ++level)
    deep_heads_.push_back(
        nn::Conv3d::linear_gain(level_channels(config, level), out_channels, kOne, nn::Bias::yes));
}

Tensor UNet3d::run_block(ResConvBlock& block, const Tensor& x) {
  if (!config_.recompute || !recording()) return block.forward(x);
  return nn::recompute(
      block, [&block](const Tensor& input) { return block.forward(input); }, x);
}

Tensor UNet3d::upsample(const Up& up, const Tensor& x, Dims3 size) const {
  if (up.transposed) return up.transposed->forward_to(x, size);
  // Defined as interpolation followed by the 1x1x1 convolution.  Both are linear, one over space
  // and one over channels, and the weights of an interpolation add up to 1, so that the bias passes
  // too: the other order is the same function at an eighth of the work.
  return nn::upsample_trilinear(up.conv->forward(x), size);
}

std::vector<Tensor> UNet3d::feature_levels(const Tensor& x) {
  std::vector<Tensor> levels(deep_heads_.size() + 1);
  levels[0] = decode(x, &levels);
  return levels;
}

const nn::Conv3d& UNet3d::deep_head(int64_t level) const {
  BORA_CHECK(level >= 1 && level <= static_cast<int64_t>(deep_heads_.size()), "UNet3d: no head at ",
             "level ", level, ", there are ", deep_heads_.size(), " below the top");
  return deep_heads_[static_cast<size_t>(level - 1)];
}

// `levels`: where the outputs of decoder levels go that have a head; [0] is left alone.
Tensor UNet3d::decode(const Tensor& x, std::vector<Tensor>* levels) {
  BORA_CHECK(x.rank() == 5 && x.size(4) == in_channels_, "UNet3d: wants (N, D, H, W, ",
             in_channels_, "), got ", x.shape());
  for (int axis = 1; axis <= 3; ++axis)
    BORA_CHECK(x.size(axis) >= min_extent(), "UNet3d: volume ", spatial(x),
               " is too small: each extent must be at least ", min_extent(), " for ",
               config_.levels, " pooling levels");
  std::vector<Tensor> skips;
  Tensor h = x;
  for (auto& block : encoder_) {
    skips.push_back(run_block(*block, h));
    h = nn::max_pool3d(skips.back());
  }
  h = run_block(*bottleneck_, h);
  for (size_t level = encoder_.size(); level-- > 0;) {
    h = nn::concat({skips[level], upsample(up_[level], h, spatial(skips[level]))});
    skips[level] = Tensor();
    h = run_block(*decoder_[level], h);
    if (levels && level > 0 && level < levels->size()) (*levels)[level] = h;
  }
  return h;
}

void UNet3d::visit(nn::Visitor& v) {
  for (size_t l = 0; l < encoder_.size(); ++l) v.child("encoder" + std::to_string(l), *encoder_[l]);
  v.child("bottleneck", *bottleneck_);
  for (size_t l = decoder_.size(); l-- > 0;) {
    if (up_[l].conv) v.child("up" + std::to_string(l), *up_[l].conv);
    if (up_[l].transposed) v.child("up" + std::to_string(l), *up_[l].transposed);
    v.child("decoder" + std::to_string(l), *decoder_[l]);
  }
  v.child("head", head_);
  for (size_t i = 0; i < deep_heads_.size(); ++i)
    v.child("deep_head" + std::to_string(i + 1), deep_heads_[i]);
}

void UNet3d::set_collective(Collective* ranks) {
  for (auto& block : encoder_) block->set_collective(ranks);
  for (auto& block : decoder_) block->set_collective(ranks);
  bottleneck_->set_collective(ranks);
}

}  // namespace bora::unet3d
