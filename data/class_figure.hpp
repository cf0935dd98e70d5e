// SPDX-License-Identifier: Apache-2.0
// Pictures of a segmentation: an image, its true classes, the predicted ones, and where they
// differ.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor.hpp"

namespace bora::data {

/// A plane through a labelled volume.  Fields are (nu, nv) with v fastest; u is drawn to the right,
/// v upwards.
struct ClassSlice {
  std::string label, u_label, v_label;  ///< "z = 41", "x (mm)", "y (mm)"
  int64_t nu = 0, nv = 0;
  double u_step = 1, v_step = 1;  ///< extent of a cell, for true proportions
  std::vector<float> image;
  std::vector<uint8_t> truth, prediction;
  std::vector<uint8_t> counts;  ///< 0: the cell counts for no score, its classes are not drawn
};

struct ClassFigure {
  std::string title{}, subtitle{};
  std::vector<std::string> classes{};  ///< names of 0, 1, ...; class 0 is not coloured
  std::vector<ClassSlice> slices{};    ///< one row of panels each
};

/// Draws for each slice the image in greys (from its 1st to its 99th percentile), truth and
/// prediction in colours over it, and the cells that differ: found where the truth has class 0,
/// missed where the prediction has it, or another class.  Writes a PNG, atomically.  Throws Error
/// if sizes do not fit or a class has no name, and if the file cannot be written.
void draw_classes(const std::string& path, const ClassFigure& figure);

/// What slices are cut from, on the CPU: image (X, Y, Z, C) f32, of which channel 0 is drawn;
/// truth, prediction, counts (X, Y, Z) u8.
struct ClassVolume {
  Tensor image, truth, prediction, counts;
  std::array<double, 3> spacing{0, 0, 0};  ///< 0: unknown, cells are drawn as squares
};
/// The planes z, y and x of most cells whose true or predicted class is not 0; the middle ones
/// where there are none.
std::vector<ClassSlice> telling_slices(const ClassVolume& volume);

}  // namespace bora::data
