// SPDX-License-Identifier: Apache-2.0
// A trained network of classes over a whole image, for predict and evaluate.
#pragma once

#include <functional>

#include "apps/unet3d/class_windows.hpp"
#include "apps/unet3d/field.hpp"
#include "apps/unet3d/setup.hpp"
#include "data/volume_dataset.hpp"

namespace bora::unet3d {

/// Throws UsageError naming the setting of FieldConfig that is for wind alone.
void check_class_config(const FieldConfig& config, const std::string& command);

/// The windows that --window and --overlap say: auto, those of the run's volumes.patch.  Throws
/// UsageError for windows that are too small for the network.
ClassPlan plan_classes(const FieldConfig& config, const TrainedModel& trained, const Dims3& grid);

/// One case on its way through the network.
struct ClassJob {
  const data::VolumeDataset* cases = nullptr;
  int64_t index = 0;
  ClassPlan plan;
  /// The whole box of the case, (X, Y, Z, C) f32, where it is in memory; else it is read: at once
  /// up to kImageAtOnce bytes, beyond that slab by slab.
  Tensor image = {};
  DType compute = DType::f32;
  /// Called after each window, so that waiting ranks know that this one is alive; may throw.
  std::function<void()> after_window = [] {};
  /// Planes [first, first + n) of the case: logits (n, Y, Z, K) f32 on the host; ascending.
  std::function<void(int64_t first, Tensor& logits)> take = {};
};
void predict_classes(TrainedModel& trained, const ClassJob& job);
/// A gzip stream is unpacked from its beginning for each slab, so few slabs.
inline constexpr int64_t kImageAtOnce = int64_t{2} << 30;

/// (..., K) logits to probabilities, exp(y_k - max) / sum, in f64, rounded to f32.  In place.
void softmax(Tensor& logits);

}  // namespace bora::unet3d
