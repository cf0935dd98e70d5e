// SPDX-License-Identifier: Apache-2.0
// Windows of a segmentation: which ones cover a volume, and a volume in memory as they see it.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "apps/unet3d/sliding_window.hpp"
#include "core/tensor.hpp"
#include "data/window.hpp"

namespace bora::unet3d {

/// How a volume goes through the network.
struct ClassPlan {
  WindowLayout layout;
  /// The volume and the padding that the windows see around it, as a box of the volume's grid.
  data::Window frame;
  std::string text;  ///< which windows: for the log
};
/// Windows of `window` cells, 0: the volume's own extent, with `overlap`: one number or three.
ClassPlan plan_classes(const Dims3& window, const Dims3& volume,
                       const std::vector<double>& overlap);

/// volume (X, Y, Z, C) f32 -> the frame, padding = `padding` of each channel.
Tensor framed(const Tensor& volume, const data::Window& frame, const std::vector<float>& padding);

/// What lies beyond a volume as volumes.padding says: zeros, or the smallest value of each channel
/// (NaN is none; 0 for a channel of nothing else).  volume (X, Y, Z, C) f32, scaled.
std::vector<float> padding_of(const Tensor& volume, const std::string& rule);

/// The cells of `window`, of the layout, out of a slab (X', Y', Z', C) of its frame that begins at
/// plane `first_x` of the volume's grid.
Tensor cut_from_frame(const Tensor& slab, int64_t first_x, const ClassPlan& plan,
                      const data::Window& window);

}  // namespace bora::unet3d
