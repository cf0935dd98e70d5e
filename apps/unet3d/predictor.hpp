// SPDX-License-Identifier: Apache-2.0
// Predictor: what `predict` does for one task; the command does the rest (files, ranks, failures).
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "apps/unet3d/field.hpp"
#include "apps/unet3d/predict_inputs.hpp"
#include "apps/unet3d/pulse.hpp"

namespace bora::unet3d {

struct PredictConfig : FieldConfig {
  std::string output = ".";
  std::string truth;
  std::string picture;
  double height = 10.0;
  std::vector<double> angle;
  bool probabilities = false;
  std::string existing = "replace";
  std::string on_bad_files = "refuse";
  static constexpr auto fields() {
    return std::tuple_cat(
        FieldConfig::fields(),
        std::tuple{
            field("output", &PredictConfig::output,
                  "folder for <case>_prediction.nc (.nii.gz, .h5 with images), or with one input "
                  "the file itself (a name ending so); made if it is missing"),
            field("existing", &PredictConfig::existing, "where an output is there already",
                  one_of("replace", "skip", "refuse")),
            field("on_bad_files", &PredictConfig::on_bad_files,
                  "inputs that cannot be read or predicted: stop, or go on with the others; the "
                  "exit code is 1 either way",
                  one_of("refuse", "skip")),
            field("truth", &PredictConfig::truth,
                  "wind: the file to compare with; only with one mask"),
            field("picture", &PredictConfig::picture,
                  "wind: PNG of truth, prediction and error; wants --truth"),
            field("height", &PredictConfig::height,
                  "wind: metres above ground of the picture's horizontal slice", at_least(0)),
            field("angle", &PredictConfig::angle,
                  "wind: the angle in degrees, for a network that is told it; empty: from the "
                  "mask's name"),
            field("probabilities", &PredictConfig::probabilities,
                  "segmentation: also <case>_probabilities, one channel for each class")});
  }
};

class Predictor {
 public:
  virtual ~Predictor() = default;
  virtual PredictNames names() const = 0;
  /// Throws UsageError for settings that do not go with so many inputs.
  virtual void check_fit(size_t n_inputs) const { static_cast<void>(n_inputs); }
  /// Opens an input and throws what speaks against a prediction, without reading its values.  Gives
  /// what tell_of wants to know of it.
  virtual std::string look_into(const std::string& file) const = 0;
  /// Logs what is to be said of all inputs together, once: `seen[i]` is what look_into gave for
  /// input i, on whichever rank; empty where it threw.
  virtual void tell_of(const std::vector<PredictInput>& inputs,
                       const std::vector<std::string>& seen) const {
    static_cast<void>(inputs), static_cast<void>(seen);
  }
  /// Predicts and writes one input; beats now and then.
  virtual void predict(const PredictInput& input, Pulse& pulse) = 0;
};

/// Of networks for wind, and for classes.  Both outlive the predictor.  Throw UsageError for
/// settings that do not go with the network.
std::unique_ptr<Predictor> make_wind_predictor(const PredictConfig& config, TrainedModel& trained);
std::unique_ptr<Predictor> make_segmentation_predictor(const PredictConfig& config,
                                                       TrainedModel& trained);

}  // namespace bora::unet3d
