// SPDX-License-Identifier: Apache-2.0
#include "data/box.hpp"

#include <charconv>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "data/text_rows.hpp"

namespace bora::data {
namespace {

int64_t extent_of(std::string_view text, const std::string& whole, int64_t missing) {
  if (text.empty()) return missing;
  int64_t value = 0;
  const auto [last, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || last != text.data() + text.size() || value < 0)
    throw UsageError("box '" + whole + "': '" + std::string(text) +
                     "' is no whole number of at least 0");
  return value;
}

}  // namespace

Box Box::parse(const std::string& text, const Dims3& grid) {
  std::vector<std::string> parts = cut(text, ',');
  if (text.ends_with(',')) parts.emplace_back();
  if (parts.size() != 3)
    throw UsageError("box '" + text + "' has " + std::to_string(parts.size()) +
                     " parts, wanted three: begin_x:end_x,begin_y:end_y,begin_z:end_z");
  int64_t begin[3], count[3];
  for (int axis = 0; axis < 3; ++axis) {
    const std::string& part = parts[static_cast<size_t>(axis)];
    const size_t colon = part.find(':');
    if (!part.empty() && colon == part.npos)
      throw UsageError("box '" + text + "': '" + part + "' has no colon, wanted begin:end");
    const std::string_view all = part;
    begin[axis] = extent_of(part.empty() ? all : all.substr(0, colon), text, 0);
    const int64_t end = extent_of(part.empty() ? all : all.substr(colon + 1), text, grid[axis]);
    if (end <= begin[axis])
      throw UsageError("box '" + text + "': '" + part + "' has no cell on an axis of " +
                       std::to_string(grid[axis]));
    count[axis] = end - begin[axis];
  }
  return {{begin[0], begin[1], begin[2]}, {count[0], count[1], count[2]}};
}

std::string Box::text() const {
  std::string out;
  for (int axis = 0; axis < 3; ++axis)
    out += (axis ? "," : "") + std::to_string(begin[axis]) + ":" +
           std::to_string(begin[axis] + count[axis]);
  return out;
}

bool Box::is_inside(const Dims3& grid) const {
  for (int axis = 0; axis < 3; ++axis)
    if (begin[axis] < 0 || count[axis] < 1 || begin[axis] > grid[axis] - count[axis]) return false;
  return true;
}

}  // namespace bora::data
