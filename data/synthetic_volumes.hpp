// SPDX-License-Identifier: Apache-2.0
// Synthetic volumes with labels of a known formula: balls and boxes, for tests and demos.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/shape.hpp"

namespace bora::data {

struct SyntheticVolumesOptions {
  int n_cases = 4;
  Dims3 grid{48, 40, 32};
  int64_t channels = 1;
  double noise = 0.1;  ///< standard deviation, in steps between the brightness of two classes
  double spacing_mm = 1;
  bool weights = false;           ///< write weights too: 2 in balls and boxes, 1 elsewhere
  std::string format = "nii.gz";  ///< or "nii", "h5"
  uint64_t seed = 0;
};

/// A ball (class 1) or a box (class 2); lengths in cells, cell i reaches from i to i + 1.
struct SyntheticShape {
  uint8_t of_class = 1;
  double x = 0, y = 0, z = 0;  ///< centre
  double radius = 0;           ///< half the edge of a box along x; y and z are 0.8 and 0.6 of it
};

/// The names of the classes: background, ball, box.
std::vector<std::string> synthetic_classes();

/// Two balls and two boxes of one case, wholly inside the grid where that is 8 cells or more along
/// each axis; a pure function of its arguments.
std::vector<SyntheticShape> synthetic_shapes(const SyntheticVolumesOptions& options, int of_case);

/// The class of a point: that of the last shape that holds it, else 0.
uint8_t synthetic_class(const std::vector<SyntheticShape>& shapes, double x, double y, double z);

/// Writes <root>/case<i>_image.<format>, f32: 100 (class + 1), a channel c times 1 + c / 2, plus
/// noise (a pure function of the seed and the cell), and <root>/case<i>_label.<format>, u8, with
/// weights <root>/case<i>_weight.<format>, f32.  h5: one file <root>/case<i>.h5 with raw, label and
/// weight, axes (z, y, x) or (c, z, y, x).  Returns the cases' names, sorted.  Throws UsageError
/// for options that cannot be.
std::vector<std::string> write_synthetic_volumes(const std::string& root,
                                                 const SyntheticVolumesOptions& options);

}  // namespace bora::data
