// SPDX-License-Identifier: Apache-2.0
// From settings to objects: what the commands have in common.
#pragma once

#include <memory>
#include <string>

#include "apps/unet3d/cases.hpp"
#include "apps/unet3d/config.hpp"
#include "apps/unet3d/model.hpp"
#include "data/checkpoint.hpp"
#include "data/volume_normalise.hpp"
#include "kernels/metrics.hpp"
#include "nn/parameter_arena.hpp"

namespace bora::unet3d {

/// With one output, or one for each class where cells are classified.
std::unique_ptr<UNet3d> make_model(const Config& config, int64_t in_channels);

/// Throws UsageError naming the key where a table of the other task has been changed: it would do
/// nothing.  A pure function, as the next ones.
void check_task_keys(const Config& config);
/// Throws UsageError where the network's settings do not go with how ranks work together.
void check_network(const Config& config);
/// What a user should know of the network's norm with so many ranks: one sentence each.
std::vector<std::string> network_warnings(const Config& config, int n_ranks);
/// Smallest extents of a sample of which a training step can be made.
int64_t smallest_sample(const UNet3d& model);
/// For the start of the log: which task, which network.
std::vector<std::string> task_lines(const Config& config);

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
  data::Normaliser normaliser;  ///< of the wind speed
  /// Of images, where cells are classified; else nullptr.
  std::unique_ptr<data::VolumeNormaliser> images;
  std::string path;
  int64_t updates = 0;
  Weights weights = Weights::model;  ///< model or ema: which were loaded
  /// How the axes of the training images ran, where all ran alike and the file says it.
  std::string orientation;
  /// Names of the cases of each part of the run's split.
  std::vector<std::string> training, validation, test;
};
/// Throws UsageError saying that `command` is not for this network's task, unless it is `task`.
void require_task(const TrainedModel& trained, const std::string& task, const std::string& command);
/// The network on `device`, whatever trained it.  Throws Error naming the file if it is missing,
/// damaged, no checkpoint of this program, or without the average that was asked for.
TrainedModel load_trained(const std::string& path, Device device = cpu(),
                          Weights weights = Weights::automatic);

}  // namespace bora::unet3d
