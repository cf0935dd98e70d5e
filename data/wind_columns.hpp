// SPDX-License-Identifier: Apache-2.0
// The columns of a manifest of wind cases.
#pragma once

#include <string>
#include <tuple>

#include "core/config.hpp"

namespace bora::data {

/// Names of columns; empty: there is none.  A column of the default name may be missing, then what
/// it says comes from the file names; one of another name must be there.
struct WindColumnsConfig {
  std::string name = "case";
  std::string wind = "wind";
  std::string mask = "mask";
  std::string group = "layout_id";
  std::string angle = "angle";
  std::string part = "part";

  static constexpr auto fields() {
    using C = WindColumnsConfig;
    return std::tuple{
        field("case", &C::name, "column with the case's name; without it: of the mask file's name"),
        field("wind", &C::wind,
              "column with the wind file's path, below the manifest's folder; without it: "
              "<wind_folder>/<case><wind_suffix> below the root"),
        field("mask", &C::mask, "column with the mask file's path, likewise"),
        field("group", &C::group,
              "column with the layout, for the split by geometry; without it: layout_pattern"),
        field("angle", &C::angle, "column with the angle in degrees; without it: angle_patterns"),
        field("part", &C::part,
              "column with training, validation or test, or nothing: overrides the split"),
    };
  }
};

}  // namespace bora::data
