// SPDX-License-Identifier: Apache-2.0
// The settings of the trainer: every key of the TOML file and of the command line.
#pragma once

#include <string>
#include <tuple>

#include "apps/train/config.hpp"
#include "apps/unet3d/model.hpp"
#include "core/config.hpp"
#include "data/split.hpp"
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
  ModelConfig model;
  data::WindConfig data;
  data::SplitConfig split;
  LossConfig loss;
  Config() { output.dir = "runs/unet3d"; }
  static constexpr auto fields() {
    return std::tuple_cat(
        std::tuple{field("model", &Config::model, "The network"),
                   field("data", &Config::data, "Cases, windows, normalisation, variations"),
                   field("split", &Config::split, "Which cases train, validate and test"),
                   field("loss", &Config::loss, "The loss")},
        RunConfig::fields());
  }
};

}  // namespace bora::unet3d
