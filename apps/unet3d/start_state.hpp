// SPDX-License-Identifier: Apache-2.0
// StartState: what a checkpoint holds besides the weights, for a run that has not begun.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/unet3d/config.hpp"
#include "apps/unet3d/model.hpp"
#include "core/collective.hpp"
#include "data/normalise.hpp"
#include "data/safetensors.hpp"
#include "data/volume_normalise.hpp"
#include "nn/parameter_arena.hpp"

namespace bora::unet3d {

struct StartState {
  std::string source;  ///< the file it is from
  Config config;
  int64_t in_channels = 1;
  data::NormMode normalisation = data::NormMode::global;
  data::Moments moments;  ///< of the training cases; nothing but with NormMode::global
  /// Of images, where cells are classified: then the two above say nothing; else nullptr.
  std::shared_ptr<data::VolumeNormaliser> images = nullptr;
  /// Names of the cases of each part of the split.
  std::vector<std::string> training, validation, test;
  /// How the axes of the training images ran (orientation_check.hpp); empty: not known.
  std::string orientation = {};
  int64_t total_updates = 0;  ///< of a run
  int64_t world_size = 1;     ///< ranks of that run
  int64_t updates = 0;        ///< made when the weights were saved; a saved start has none
};

/// Of the run that wrote a checkpoint.  Throws Error naming the file.
StartState start_state_of_checkpoint(const std::string& path);
/// Of a new run with the settings of a TOML file by as many ranks as there are, whose data is read
/// as training would: the split, and the statistics for the normalisation.  Collective.
StartState start_state_of_settings(const std::string& path, Collective& ranks);

/// The texts that go with the weights into a safetensors file: "format" = "pt", and what
/// start_state_of_metadata wants under keys that begin with "bora.".
data::TextMap metadata_of(const StartState& state);
/// Whether a file has them.
bool has_start_state(const data::SafetensorsReader& file);
/// Throws Error naming file and key for one that is missing or does not parse.
StartState start_state_of_metadata(const data::SafetensorsReader& file);

/// Makes the state fit the weights of a file that says where they come from: their statistics win,
/// since outputs are in their units.  Throws UsageError if it says that they belong to another
/// network or normalisation, also where the shapes of all tensors agree.  Returns a sentence for
/// the log where the statistics were others, else nothing.
std::string adopt_statistics(StartState& state, const data::SafetensorsReader& file);

/// Writes a checkpoint of a run that has made no update: these weights, a fresh optimizer, the
/// beginning of the first epoch.  predict and evaluate take it; `train --resume` begins with it.
void save_start(const std::string& path, const StartState& state, UNet3d& model,
                nn::ParameterArena& arena);

}  // namespace bora::unet3d
