// SPDX-License-Identifier: Apache-2.0
#include "data/volume_axes.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "data/permute.hpp"

namespace bora::data {

namespace {

/// What is wrong with a value that shall become an integer of type T, or nullptr.
template <class T, class In>
const char* fault_of(In value) {
  if constexpr (std::is_floating_point_v<In>) {
    if (std::isnan(value)) return "is missing (NaN or fill value)";
    if (value != std::floor(value)) return "is not a whole number";
    // The first value above the range is a power of two, which a float holds exactly.
    const double above = std::ldexp(1.0, std::numeric_limits<T>::digits);
    const double low = std::is_signed_v<T> ? -above : 0.0;
    return static_cast<double>(value) >= low && static_cast<double>(value) < above
               ? nullptr
               : "is out of range";
  } else {
    return std::in_range<T>(value) ? nullptr : "is out of range";
  }
}

template <class T, class In>
void convert(const Tensor& values, Tensor& out, const VolumeInfo& info, const Dims3& begin) {
  const In* in = values.data<In>();
  T* to = out.data<T>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    if (const char* fault = fault_of<T>(in[i])) {
      const int64_t cell = i / values.size(3), rows = values.size(2);
      const int64_t z = cell % rows, y = cell / rows % values.size(1);
      const int64_t x = cell / rows / values.size(1);
      BORA_FAIL(label_of(info.source), ": the value ", +in[i], " at cell (", begin.d + x, ", ",
                begin.h + y, ", ", begin.w + z, ") ", fault, "; wanted whole numbers of type ",
                out.dtype());
    }
    to[i] = static_cast<T>(in[i]);
  }
}

template <class T>
void convert_to(const Tensor& values, Tensor& out, const VolumeInfo& info, const Dims3& begin) {
  switch (values.dtype()) {
    case DType::f32:
      return convert<T, float>(values, out, info, begin);
    case DType::f64:
      return convert<T, double>(values, out, info, begin);
    case DType::u8:
      return convert<T, uint8_t>(values, out, info, begin);
    case DType::i32:
      return convert<T, int32_t>(values, out, info, begin);
    case DType::i64:
      return convert<T, int64_t>(values, out, info, begin);
    default:
      BORA_FAIL("whole_values: values of type ", values.dtype());
  }
}

size_t at(int place) { return static_cast<size_t>(place); }

/// 'x', 'y' or 'z' for the name of a dimension, else 0.
char letter_of(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::array<std::pair<std::string_view, char>, 18> kNames = {{{"x", 'x'},
                                                                         {"xc", 'x'},
                                                                         {"lon", 'x'},
                                                                         {"longitude", 'x'},
                                                                         {"easting", 'x'},
                                                                         {"y", 'y'},
                                                                         {"yc", 'y'},
                                                                         {"lat", 'y'},
                                                                         {"latitude", 'y'},
                                                                         {"northing", 'y'},
                                                                         {"z", 'z'},
                                                                         {"zc", 'z'},
                                                                         {"lev", 'z'},
                                                                         {"level", 'z'},
                                                                         {"height", 'z'},
                                                                         {"altitude", 'z'},
                                                                         {"elevation", 'z'},
                                                                         {"depth", 'z'}}};
  for (const auto& [known, letter] : kNames)
    if (name == known) return letter;
  return '\0';
}

}  // namespace

std::optional<VolumeAxes> axes_from_names(const std::vector<std::string>& names,
                                          const std::vector<int64_t>& extents) {
  VolumeAxes axes{-1, -1, -1, -1};
  for (size_t i = 0; i < names.size(); ++i) {
    const char letter = letter_of(names[i]);
    int* place = letter == 'x'   ? &axes.x
                 : letter == 'y' ? &axes.y
                 : letter == 'z' ? &axes.z
                                 : nullptr;
    if (place == nullptr) continue;
    if (*place >= 0) return std::nullopt;
    *place = static_cast<int>(i);
  }
  if (axes.x < 0 || axes.y < 0 || axes.z < 0) return std::nullopt;
  for (size_t i = 0; i < names.size(); ++i) {
    const int place = static_cast<int>(i);
    if (place == axes.x || place == axes.y || place == axes.z || extents[i] == 1) continue;
    BORA_CHECK(axes.c < 0, "axes '", names[at(std::max(axes.c, 0))], "' and '", names[i],
               "' beside x, y and z have more than one cell; wanted one channel axis at most");
    axes.c = place;
  }
  return axes;
}

VolumeAxes axes_from_order(const std::string& order, size_t rank) {
  BORA_CHECK(rank == 3 || rank == 4, rank,
             " axes; wanted 3, or 4 with a channel axis, as a 3-D field has");
  std::string letters = order.empty() ? (rank == 3 ? "zyx" : "czyx") : order;
  std::string sorted = letters;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != "xyz" && sorted != "cxyz")
    throw UsageError(
        "order \"" + order +
        "\": wanted each of x, y, z once, and c where there is a channel axis, slowest "
        "axis first (\"zyx\", \"czyx\", \"zyxc\")");
  if (rank == 3) std::erase(letters, 'c');
  BORA_CHECK(letters.size() == rank, "4 axes, but order \"", order,
             "\" names 3; add c for the channel axis (\"c", order, "\" or \"", order, "c\")");
  const auto place = [&](char letter) {
    const size_t found = letters.find(letter);
    return found == std::string::npos ? -1 : static_cast<int>(found);
  };
  return {place('x'), place('y'), place('z'), place('c')};
}

ArrayBlock block_of_box(const VolumeAxes& axes, const std::vector<int64_t>& extents,
                        const Dims3& begin, const Dims3& count) {
  ArrayBlock block;
  block.begin.assign(extents.size(), 0);
  block.count.assign(extents.size(), 1);
  const int places[3] = {axes.x, axes.y, axes.z};
  for (int i = 0; i < 3; ++i) {
    block.begin[at(places[i])] = begin[i];
    block.count[at(places[i])] = count[i];
  }
  if (axes.c >= 0) block.count[at(axes.c)] = extents[at(axes.c)];
  return block;
}

Tensor turn_to_volume(const Tensor& block, const VolumeAxes& axes) {
  std::vector<int> order;
  for (int i = 0; i < block.rank(); ++i)
    if (i != axes.x && i != axes.y && i != axes.z && i != axes.c) order.push_back(i);
  for (const int place : {axes.x, axes.y, axes.z, axes.c})
    if (place >= 0) order.push_back(place);
  const int64_t n_channels = axes.c < 0 ? 1 : block.size(axes.c);
  return permute(block, order)
      .reshape(Shape{block.size(axes.x), block.size(axes.y), block.size(axes.z), n_channels});
}

Dims3 grid_of_axes(const VolumeAxes& axes, const std::vector<int64_t>& extents) {
  return {extents[at(axes.x)], extents[at(axes.y)], extents[at(axes.z)]};
}

int64_t channels_of_axes(const VolumeAxes& axes, const std::vector<int64_t>& extents) {
  return axes.c < 0 ? 1 : extents[at(axes.c)];
}

std::string label_of(const VolumeSource& source) {
  return source.variable.empty() ? "'" + source.path + "'"
                                 : "'" + source.path + "', variable '" + source.variable + "'";
}

void check_box(const VolumeInfo& info, const Dims3& begin, const Dims3& count) {
  for (int i = 0; i < 3; ++i)
    BORA_CHECK(begin[i] >= 0 && count[i] >= 0 && begin[i] <= info.grid[i] - count[i],
               label_of(info.source), ": a box of ", count, " cells from (", begin.d, ", ", begin.h,
               ", ", begin.w, ") on is not inside the grid of ", info.grid);
}

Tensor whole_values(const Tensor& values, DType type, const VolumeInfo& info, const Dims3& begin) {
  BORA_CHECK(values.defined() && values.rank() == 4, "whole_values: wants values (X, Y, Z, C)");
  BORA_CHECK(!is_float(type), "whole_values: to type ", type, ", wanted u8, i32 or i64");
  if (values.dtype() == type) return values;
  Tensor out = Tensor::empty(values.shape(), type);
  if (type == DType::u8)
    convert_to<uint8_t>(values, out, info, begin);
  else if (type == DType::i32)
    convert_to<int32_t>(values, out, info, begin);
  else
    convert_to<int64_t>(values, out, info, begin);
  return out;
}

}  // namespace bora::data
