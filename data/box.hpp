// SPDX-License-Identifier: Apache-2.0
// Box: some cells of a grid.
#pragma once

#include <string>

#include "core/shape.hpp"

namespace bora::data {

/// A box of a file's grid: cells [begin, begin + count) along x, y, z.
struct Box {
  Dims3 begin;
  Dims3 count;
  /// "0:181,0:108,0:181", the end not included; an empty part ("0:181,,:90") is the whole axis of
  /// `grid`, an empty end is the axis' end.  Throws UsageError for other text.  Whether it lies in
  /// the grid is not asked here.
  static Box parse(const std::string& text, const Dims3& grid);
  std::string text() const;
  bool is_inside(const Dims3& grid) const;
  friend bool operator==(const Box&, const Box&) = default;
};

}  // namespace bora::data
