// SPDX-License-Identifier: Apache-2.0
// Fields: a trained network over whole cases, by windows or at once, for predict and evaluate.
#pragma once

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "apps/unet3d/setup.hpp"
#include "apps/unet3d/sliding_window.hpp"
#include "core/config.hpp"
#include "core/dtype.hpp"
#include "data/wind_dataset.hpp"

namespace bora::unet3d {

/// How ranks wait for each other where nothing is trained.
struct WaitConfig {
  double timeout_s = 600;
  static constexpr auto fields() {
    return std::tuple{field("timeout_s", &WaitConfig::timeout_s,
                            "longest wait for other ranks in one operation, seconds; at least what "
                            "one window takes",
                            positive)};
  }
};

/// The settings that predict and evaluate share.
struct FieldConfig {
  std::string checkpoint;
  std::string weights = "auto";
  std::string window = "auto";
  std::vector<double> overlap = {0.5};
  std::string flips = "none";
  bool mirror = false;
  std::string device = "auto";
  std::string precision = "fp32";
  WaitConfig comm;
  static constexpr auto fields() {
    return std::tuple{
        field("checkpoint", &FieldConfig::checkpoint, "the network: best.h5 or last.h5 of a run"),
        field("weights", &FieldConfig::weights,
              "those that training works with, their average (train.ema), or the average where "
              "there is one",
              one_of("auto", "model", "ema")),
        field("window", &FieldConfig::window,
              "auto: sliding windows of the run's data.shape (volumes.patch) where that is smaller "
              "than the grid, else the whole grid; whole; centred: only the centred window of the "
              "run's data.shape; or its extents, 64x64x0 (0: the grid's own)"),
        field("overlap", &FieldConfig::overlap,
              "of neighbouring windows, share of their extent: one number, or one for each axis",
              between(0, 0.95)),
        field(
            "flips", &FieldConfig::flips,
            "wind: average with the predictions of mirror images: in x, in y, or in x, in y and in "
            "both",
            one_of("none", "x", "y", "xy")),
        field("mirror", &FieldConfig::mirror, "the same as flips=y"),
        field("device", &FieldConfig::device, "what computes, as in training",
              one_of("auto", "cpu", "cuda")),
        field("precision", &FieldConfig::precision,
              "what convolutions compute in, however the network was trained",
              one_of("fp32", "fp16", "bf16")),
        field("comm", &FieldConfig::comm, "How ranks work together")};
  }
};

/// The mirror images whose predictions are averaged with that of the case itself; with both, the
/// image in both axes, too.
struct Flips {
  bool x = false, y = false;
  friend bool operator==(const Flips&, const Flips&) = default;
};
/// Those of flips and mirror.  Throws UsageError, saying why, for a flip that would make the result
/// false, and for one that the run did not train on.
Flips flips_of(const FieldConfig& config, const TrainedModel& trained);

/// How a network is used.
struct FieldMode {
  Flips flips;
  DType compute = DType::f32;  ///< of convolutions; weights and sums stay in f32
};

/// The network's output for one input, as it is normalised: (X, Y, Z, C) -> (X, Y, Z, K) f32 on the
/// host, computed where the network is.  The angle of a network that is told it turns with a flip.
/// Images are averaged in f32, pairs first: a mirror image of the input gives the mirror image of
/// the output, to the bit.
Tensor predict_window(TrainedModel& trained, const Tensor& input, double angle_deg,
                      const FieldMode& mode);

/// What of a grid is predicted, and by which windows.
struct FieldPlan {
  data::Window area;    ///< the box of the grid that is predicted; without padding
  WindowLayout layout;  ///< of the area
  std::string text;     ///< which windows, and why, for the log
};
/// The area has all of x and y (with "centred": what the run's window shows) and the levels that
/// the network was trained on: from the ground up, so that every window begins there.  Throws
/// UsageError for settings that do not fit the network.
FieldPlan plan_field(const FieldConfig& config, const TrainedModel& trained, const Dims3& grid);

/// One case on its way through the network.
struct FieldJob {
  const data::WindDataset* cases = nullptr;
  int64_t index = 0;
  FieldPlan plan;
  data::Scaling scaling;  ///< of the network's output
  FieldMode mode;
  /// Called after each window, so that waiting ranks know that this one is alive; may throw.
  std::function<void()> after_window = [] {};
  /// Planes [first, first + n) of the area, (n, Y, Z) f32 in m/s, 0 in buildings; ascending.
  std::function<void(int64_t first, const Tensor& slab)> take = {};
};
/// Runs a job.  The masks are read slab by slab: memory goes by the window and the cross-section.
/// Throws Error naming the file and the cell if a value is NaN or infinite.
void predict_field(TrainedModel& trained, const FieldJob& job);
/// The same in one piece: (X, Y, Z) f32 of the area.  `take` is not used.
Tensor predict_whole_field(TrainedModel& trained, FieldJob job);

/// "64x64x0" as three extents; throws UsageError for other text.
Dims3 window_extents(const std::string& text);

/// Throws UsageError naming the command where a setting is missing.
void check_field_config(const FieldConfig& config, const std::string& command);

}  // namespace bora::unet3d
