// SPDX-License-Identifier: Apache-2.0
// The settings of the trainer: every key of the TOML file and of the command line.
#pragma once

#include <string>
#include <tuple>

#include "apps/train/config.hpp"
#include "apps/unet3d/model.hpp"
#include "apps/unet3d/segmentation_config.hpp"
#include "core/config.hpp"
#include "data/split.hpp"
#include "data/volumes_config.hpp"
#include "data/wind_config.hpp"

namespace bora::unet3d {

struct LossConfig {
  std::string kind = "charbonnier";
  double eps = 1e-3;
  double gradient_weight = 0.1;
  std::string gradient = "plain";
  static constexpr auto fields() {
    return std::tuple{
        field("kind", &LossConfig::kind, "data loss", one_of("charbonnier", "mse", "mae")),
        field("eps", &LossConfig::eps, "rounding of the charbonnier loss near 0", positive),
        field("gradient_weight", &LossConfig::gradient_weight,
              "lambda: total = data loss + lambda * gradient loss; 0 = off", at_least(0)),
        field("gradient", &LossConfig::gradient, "form of the gradient loss",
              one_of("plain", "inverse", "edge"))};
  }
};

struct Config : train::RunConfig {
  std::string task = "wind";
  ModelConfig model;
  data::WindConfig data;
  data::SplitConfig split;
  LossConfig loss;
  data::VolumesConfig volumes;
  SegmentationConfig segmentation;
  Config() { output.dir = "runs/unet3d"; }
  static constexpr auto fields() {
    return std::tuple_cat(
        std::tuple{
            field("task", &Config::task,
                  "what is learnt: wind speed from building masks, by [data] and [loss]; or the "
                  "class of each cell of an image, by [volumes] and [segmentation]",
                  one_of("wind", "segmentation")),
            field("model", &Config::model, "The network"),
            field("data", &Config::data, "task=wind: cases, windows, normalisation, variations"),
            field("split", &Config::split, "Which cases train, validate and test"),
            field("loss", &Config::loss, "task=wind: the loss"),
            field("volumes", &Config::volumes,
                  "task=segmentation: images and labels, patches, normalisation, variations"),
            field("segmentation", &Config::segmentation,
                  "task=segmentation: the loss, and how it is scored")},
        RunConfig::fields());
  }
};

/// Whether the cells of images are classified; else wind speed is predicted.
inline bool is_segmentation(const Config& config) { return config.task == "segmentation"; }

/// Channels that the network gives: 1, or one for each class.
inline int64_t outputs_of(const Config& config) {
  return is_segmentation(config) ? static_cast<int64_t>(config.volumes.classes.size()) : 1;
}

}  // namespace bora::unet3d
