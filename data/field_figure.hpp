// SPDX-License-Identifier: Apache-2.0
// A picture of one field: its three middle planes.
#pragma once

#include <array>
#include <string>

#include "core/tensor.hpp"

namespace bora::data {

struct FieldFigure {
  std::string title, subtitle;
  std::string quantity;                    ///< under the colour bar: "wind_speed (m/s)"
  Tensor values;                           ///< (X, Y, Z) f32 on the CPU; NaN is drawn magenta
  std::array<double, 3> spacing{1, 1, 1};  ///< of cells, for true proportions; 0 counts as 1
  double low = 0, high = 1;                ///< ends of the colour scale
};

/// Draws the planes z = middle, y = middle and x = middle side by side with one colour bar. Writes
/// a PNG, atomically.  Throws Error if the values have no cell or another type, and if the file
/// cannot be written.
void draw_field(const std::string& path, const FieldFigure& figure);

}  // namespace bora::data
