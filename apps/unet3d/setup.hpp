// SPDX-License-Identifier: Apache-2.0
// From settings to objects: what the commands have in common.
#pragma once

#include <memory>
#include <string>

#include "apps/unet3d/cases.hpp"
#include "apps/unet3d/config.hpp"
#include "apps/unet3d/model.hpp"
#include "data/checkpoint.hpp"
#include "kernels/metrics.hpp"
#include "nn/parameter_arena.hpp"

namespace bora::unet3d {

std::unique_ptr<UNet3d> make_model(const Config& config, int64_t in_channels);

/// Sums of the errors of one case.  prediction, target f32, region u8, all of as many cells, in
/// m/s; relative errors are taken against at least 0.5 m/s, since calm cells would dominate their
/// mean.
kernels::ErrorSums case_errors(const Tensor& prediction, const Tensor& target, const Tensor& region,
                               double hit_threshold);

/// Which weights of a checkpoint: those that training works with, their exponential average
/// (train.ema), or the average where there is one.
enum class Weights { automatic, model, ema };
/// "auto", "model" or "ema"; throws UsageError for another name.
Weights weights_from(const std::string& name);
/// "model" or "ema": of weights that were loaded (TrainedModel::weights).
const char* name_of(Weights weights);

/// A network out of a checkpoint, ready to predict.
struct TrainedModel {
  Config config;  ///< of the run that trained it
  std::unique_ptr<UNet3d> model;
  std::unique_ptr<nn::ParameterArena> arena;
  data::Normaliser normaliser;
  std::string path;
  int64_t updates = 0;
  Weights weights = Weights::model;  ///< model or ema: which were loaded
  /// Names of the cases of each part of the run's split.
  std::vector<std::string> training, validation, test;
};
/// The network on `device`, whatever trained it.  Throws Error naming the file if it is missing,
/// damaged, no checkpoint of this program, or without the average that was asked for.
TrainedModel load_trained(const std::string& path, Device device = cpu(),
                          Weights weights = Weights::automatic);

}  // namespace bora::unet3d
