// SPDX-License-Identifier: Apache-2.0
// UNet3d: the network of the trainer, built from layers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/config.hpp"
#include "nn/layers/conv3d.hpp"
#include "nn/layers/norm.hpp"
#include "nn/module.hpp"

namespace bora::unet3d {

struct ModelConfig {
  int64_t base = 16;
  int64_t levels = 4;
  std::string norm = "group";
  std::string up = "trilinear";
  std::string activation = "silu";
  int64_t max_channels = 0;
  double dropout = 0.0;
  bool recompute = false;
  int64_t deep_supervision = 0;
  static constexpr auto fields() {
    return std::tuple{
        field("base", &ModelConfig::base,
              "channels of the first level; doubled at each level below", positive),
        field("levels", &ModelConfig::levels, "pooling levels", between(1, 6)),
        field("norm", &ModelConfig::norm, "normalisation",
              one_of("group", "instance", "batch", "sync_batch")),
        field("up", &ModelConfig::up, "upsampling of the decoder",
              one_of("trilinear", "transposed")),
        field("activation", &ModelConfig::activation,
              "behind each norm; leaky_relu: slope 0.01 below 0", one_of("silu", "leaky_relu")),
        field("max_channels", &ModelConfig::max_channels,
              "no level has more channels, however deep; 0 = as many as doubling gives",
              at_least(0)),
        field("dropout", &ModelConfig::dropout,
              "probability of dropping an activation inside a block", between(0.0, 0.999)),
        field("recompute", &ModelConfig::recompute,
              "run each block again in backward instead of keeping its activations"),
        field("deep_supervision", &ModelConfig::deep_supervision,
              "further heads, on the decoder levels below the top, each with a loss of its own in "
              "training; at most levels - 1; 0 = off",
              between(0, 5))};
  }
};

/// Channels of a level, 0 the top and config.levels the bottleneck: base * 2^level, at most
/// max_channels where that is given.
int64_t level_channels(const ModelConfig& config, int64_t level);
/// Of leaky_relu.  Source: Isensee et al. 2021 (nnU-Net).
inline constexpr double kLeakySlope = 0.01;

/// conv 3x3x3 -> norm -> activation (-> dropout) -> conv 3x3x3 -> norm, plus the shortcut (x
/// itself, or a 1x1x1 projection where the channel count changes), then the activation.  (N, D, H,
/// W, in) -> (N, D, H, W, out).
class ResConvBlock final : public nn::Module {
 public:
  ResConvBlock(int64_t in, int64_t out, const ModelConfig& config);
  Tensor forward(const Tensor& x);
  void visit(nn::Visitor& v) override;
  void set_collective(Collective* ranks);

 private:
  nn::Conv3d conv1_, conv2_;
  nn::Norm norm1_, norm2_;
  std::optional<nn::Conv3d> shortcut_;
  nn::Activation activation_;
  double dropout_;
};

/// Encoder of `levels` blocks with 2x2x2 max pooling between, a bottleneck block, a decoder that
/// upsamples to the size of the skip, with its channels (half as many, unless max_channels bounds
/// both), joins (skip, upsampled) and runs a block, and a linear 1x1x1 head with bias. (N, D, H, W,
/// in) -> (N, D, H, W, out) for any extents of at least min_extent().
///
/// With config.deep_supervision > 0 the decoder levels 1, 2, ... have linear heads, too, named
/// deep_head1, deep_head2, ...: for losses in training.  They change nothing of what forward()
/// computes.
class UNet3d final : public nn::Module {
 public:
  UNet3d(int64_t in_channels, int64_t out_channels, const ModelConfig& config);
  /// Throws Error naming the extent if one is below min_extent().
  Tensor forward(const Tensor& x) { return head_.forward(features(x)); }
  /// What the head reads: (N, D, H, W, base).
  Tensor features(const Tensor& x) { return decode(x, nullptr); }
  const nn::Conv3d& head() const { return head_; }
  /// What all heads read: [0] is features(x), [l] the output of decoder level l for l = 1 ..
  /// config().deep_supervision: (N, D / 2^l, H / 2^l, W / 2^l, channels of l), extents rounded
  /// down.
  std::vector<Tensor> feature_levels(const Tensor& x);
  /// Of level l, from 1 on.  Throws Error if there is none.
  const nn::Conv3d& deep_head(int64_t level) const;
  /// Whether a parameter of that name belongs to a head that only training uses: exports leave it
  /// out.
  static bool is_deep_head(std::string_view parameter) {
    return parameter.starts_with("deep_head");
  }
  void visit(nn::Visitor& v) override;

  /// 2^levels: below it a pooled extent would vanish.
  int64_t min_extent() const { return int64_t{1} << config_.levels; }
  int64_t in_channels() const { return in_channels_; }
  int64_t out_channels() const { return out_channels_; }
  const ModelConfig& config() const { return config_; }
  /// Ranks for sync_batch; not owned.
  void set_collective(Collective* ranks);

 private:
  /// Upsampling of one decoder level, to the channels of its skip.
  struct Up {
    std::optional<nn::Conv3d> conv;                 // trilinear: 1x1x1
    std::optional<nn::ConvTranspose3d> transposed;  // k2 s2
  };
  Tensor decode(const Tensor& x, std::vector<Tensor>* levels);
  Tensor run_block(ResConvBlock& block, const Tensor& x);
  Tensor upsample(const Up& up, const Tensor& x, Dims3 size) const;

  int64_t in_channels_, out_channels_;
  ModelConfig config_;
  std::vector<std::unique_ptr<ResConvBlock>> encoder_,
      decoder_;  // decoder_[l] works at the size of encoder_[l]
  std::vector<Up> up_;
  std::unique_ptr<ResConvBlock> bottleneck_;
  nn::Conv3d head_;
  std::vector<nn::Conv3d> deep_heads_;  // [i]: of decoder level i + 1
};

}  // namespace bora::unet3d
