// SPDX-License-Identifier: Apache-2.0
// What predict works on: masks out of files and folders, and where their fields go.
#pragma once

#include <string>
#include <vector>

#include "core/collective.hpp"
#include "data/wind_config.hpp"

namespace bora::unet3d {

struct PredictInput {
  std::string mask;
  std::string output;
};

/// Collective, with the same result on all ranks.  `paths`: mask files, and folders, of which all
/// files with the configured mask suffix count, also in folders inside, sorted.  `output`: a
/// folder, where the field of a case becomes <case>_prediction.nc, or, for one mask, a file (*.nc).
/// Throws UsageError for a folder without masks, for several masks and one output file, for two
/// masks that would write the same file, and for an output that is one of the inputs (the masks and
/// `others`).
std::vector<PredictInput> find_predict_inputs(const std::vector<std::string>& paths,
                                              const std::string& output,
                                              const data::WindConfig& config,
                                              const std::vector<std::string>& others,
                                              Collective& ranks);

/// What becomes of an output that is there already.
enum class Existing { replace, skip, refuse };
/// "replace", "skip" or "refuse"; throws UsageError otherwise.
Existing existing_from(const std::string& text);
/// Collective: the inputs that are left to do.  Throws UsageError naming the first output that
/// exists with Existing::refuse.
std::vector<PredictInput> without_existing(std::vector<PredictInput> inputs, Existing existing,
                                           Collective& ranks);

}  // namespace bora::unet3d
