// SPDX-License-Identifier: Apache-2.0
// Synthetic wind cases of a known formula, in the files of a real data set: for tests and demos.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/shape.hpp"

namespace bora::data {

struct SyntheticWindOptions {
  int n_layouts = 4;
  std::vector<int> angles = {0};  ///< degrees; each layout comes at each of them
  Dims3 grid{32, 32, 16};
  double spacing_m = 5;
  uint64_t seed = 0;
};

/// A box on the ground; lengths in m.
struct SyntheticBuilding {
  double x = 0, y = 0;  ///< centre
  double half_x = 0, half_y = 0;
  double height = 0;
};

/// Buildings of one layout, its centres turned by `angle` about the middle of the block; a pure
/// function of its arguments.
std::vector<SyntheticBuilding> synthetic_layout(const SyntheticWindOptions& options, int layout,
                                                int angle);

/// Whether a point is outside all buildings.
bool synthetic_open(const std::vector<SyntheticBuilding>& buildings, double x, double y, double z);

/// Wind speed in m/s at a point, 0 in buildings.  Outside: a log profile (friction velocity 0.444
/// m/s, roughness length 0.1 m) times, for each building, 1 - 0.6 w, where w decays behind it as
/// exp(-(x - front) / 4 h), across as a Gaussian of its half width, upwards of its height:
/// not physics, but smooth, with wakes, and a function of the mask alone.
double synthetic_wind(const std::vector<SyntheticBuilding>& buildings, double x, double y,
                      double z);

/// Writes <root>/wind_speed_filled and <root>/mask_buildings with the names, variables and
/// attributes of the real schema; cell centres at (i + 1/2) spacing.  Returns the cases' names,
/// sorted.  Throws UsageError for options that cannot be.
std::vector<std::string> write_synthetic_wind(const std::string& root,
                                              const SyntheticWindOptions& options);

}  // namespace bora::data
