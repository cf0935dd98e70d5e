// SPDX-License-Identifier: Apache-2.0
// Volume: a 3-D field with its axes and units, as it stands in a file.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "core/tensor.hpp"

namespace bora::data {

/// One axis of a grid.  `centres` is empty where the file has no coordinate variable.
struct Axis {
  std::string name;
  std::string units;
  std::vector<double> centres;
};

/// values (X, Y, Z); axes in the same order.
struct Volume {
  Tensor values;
  std::string name;
  std::string units;
  std::array<Axis, 3> axes;
  Dims3 extents() const { return {values.size(0), values.size(1), values.size(2)}; }
};

}  // namespace bora::data
