// SPDX-License-Identifier: Apache-2.0
// What predict works on: masks or images out of files and folders, and where predictions go.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/collective.hpp"

namespace bora::unet3d {

struct PredictInput {
  std::string file;  ///< the mask, the image
  std::string output;
};

/// How files of a task are called.
struct PredictNames {
  std::string what;        ///< "mask", "image"
  std::string suffix;      ///< files of a folder that count end in it
  std::string suffix_key;  ///< the setting that it is from
  /// The name of a prediction in the folder of the outputs, for an input.
  std::function<std::string(const std::string& input)> output;
  /// Whether an output of that name is a file rather than a folder.
  std::function<bool(const std::string& output)> is_file;
  std::string suffixes = {};  ///< of such files, in words: ".h5 or .nc"
};

/// Collective, with the same result on all ranks.  `paths`: files, and folders, of which all files
/// with the suffix count, also in folders inside, sorted.  `output`: a folder, or, for one input, a
/// file.  Throws UsageError for a folder without such files, for several inputs and one output
/// file, for two inputs that would write the same file, and for an output that is one of the inputs
/// (those and `others`).
std::vector<PredictInput> find_predict_inputs(const std::vector<std::string>& paths,
                                              const std::string& output, const PredictNames& names,
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
