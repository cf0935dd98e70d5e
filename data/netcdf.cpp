// SPDX-License-Identifier: Apache-2.0
#include "data/netcdf.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "data/hdf5_scales.hpp"
#include "data/netcdf_unpacking.hpp"
#include "data/permute.hpp"

namespace bora::data {

namespace {

using hdf5::detail::list_of;

/// For each wanted axis its place in the file.
std::vector<int> places_of(const VariableInfo& info, const std::vector<std::string>& axes) {
  check_dimension_names(info);
  std::vector<int> places;
  for (const std::string& axis : axes) {
    const auto it = std::find(info.dimensions.begin(), info.dimensions.end(), axis);
    BORA_CHECK(it != info.dimensions.end(), "no dimension '", axis, "'; the variable has ",
               list_of(info.dimensions), ", wanted ", list_of(axes));
    const int place = static_cast<int>(it - info.dimensions.begin());
    BORA_CHECK(std::find(places.begin(), places.end(), place) == places.end(), "axis '", axis,
               "' is asked for twice");
    places.push_back(place);
  }
  for (size_t i = 0; i < info.dimensions.size(); ++i)
    BORA_CHECK(std::find(places.begin(), places.end(), static_cast<int>(i)) != places.end() ||
                   info.extents[i] == 1,
               "dimension '", info.dimensions[i], "' of ", info.extents[i],
               " cells is not among the wanted ", list_of(axes));
  return places;
}

/// A dimension without values of its own.
bool is_bare(const hdf5::Dataset& d) {
  return d.has_attribute("CLASS") && d.has_attribute("NAME") &&
         d.attribute<std::string>("NAME").rfind("This is a netCDF dimension but", 0) == 0;
}

}  // namespace

void check_dimension_names(const VariableInfo& variable) {
  const std::vector<std::string>& names = variable.dimensions;
  for (const std::string& name : names)
    BORA_CHECK(name.empty() || std::count(names.begin(), names.end(), name) == 1, "dimension '",
               name, "' occurs more than once in ", list_of(names),
               ", so which axis is meant is not said; give the second one a name of its own");
}

NetcdfFile NetcdfFile::open(const std::string& path, const std::vector<std::string>& unnamed) {
  NetcdfFile file;
  file.unnamed_ = unnamed;
  file.file_ = hdf5::File::open(path);
  return file;
}

std::vector<std::string> NetcdfFile::variables() const {
  hdf5::Lock lock;
  std::vector<std::string> names;
  for (const std::string& name : file_.dataset_names())
    if (!is_bare(file_.open_dataset(name))) names.push_back(name);
  return names;
}

bool NetcdfFile::is_variable(const std::string& name) const {
  hdf5::Lock lock;
  if (name.empty() || name == "." || name.find('/') != name.npos) return false;
  return has(name) && !is_bare(file_.open_dataset(name));
}

VariableInfo NetcdfFile::info(const std::string& variable) const {
  hdf5::Lock lock;
  BORA_CHECK(has(variable), "'", path(), "' has no variable '", variable, "'; it has ",
             list_of(variables()));
  const hdf5::Dataset d = file_.open_dataset(variable);
  VariableInfo info;
  info.name = variable;
  info.extents = d.extents();
  // Its dimensions and coordinates are those of the group, which nothing here looks into.
  BORA_CHECK(
      variable.find('/') == variable.npos ||
          !(d.has_attribute("_Netcdf4Coordinates") || d.has_attribute("DIMENSION_LIST")),
      "'", path(), "', variable '", variable,
      "' lies in a group, with dimensions of its own; those of the root group are read: move "
      "it there, with: ncks -G : '",
      path(), "' out.nc");
  info.dimensions = hdf5::axis_names(file_, variable, d);
  if (std::all_of(info.dimensions.begin(), info.dimensions.end(),
                  [](const std::string& name) { return name.empty(); })) {
    std::vector<std::string> names = unnamed_;
    if (names.size() == info.extents.size() + 1) std::erase(names, "c");
    if (names.size() == info.extents.size()) info.dimensions = names;
  }
  info.type = d.type();
  if (d.has_attribute("units") && d.attribute_type("units").kind == hdf5::TypeInfo::Kind::text)
    info.units = d.attribute<std::string>("units");
  return info;
}

Tensor NetcdfFile::read(const std::string& variable, const std::vector<std::string>& axes,
                        const std::vector<Range>& ranges, DType type) const {
  hdf5::Lock lock;
  const VariableInfo info = this->info(variable);
  return with_context("'" + path() + "', variable '" + variable + "'", [&] {
    BORA_CHECK(type == DType::f32 || type == DType::f64, "read as ", type, ", wanted f32 or f64");
    BORA_CHECK(ranges.empty() || ranges.size() == axes.size(), ranges.size(), " ranges for ",
               axes.size(), " axes");
    info.type.dtype();  // refuses text and the like by name
    const std::vector<int> places = places_of(info, axes);
    std::vector<int64_t> begin(info.extents.size(), 0), count = info.extents;
    for (size_t i = 0; i < ranges.size(); ++i) {
      const size_t at = static_cast<size_t>(places[i]);
      begin[at] = ranges[i].begin;
      count[at] = ranges[i].count < 0 ? info.extents[at] - ranges[i].begin : ranges[i].count;
      BORA_CHECK(begin[at] >= 0 && count[at] >= 0 && begin[at] + count[at] <= info.extents[at],
                 "cells ", begin[at], " to ", begin[at] + count[at], " of axis '", axes[i],
                 "', which has ", info.extents[at]);
    }
    const hdf5::Dataset d = file_.open_dataset(variable);
    const Tensor values = Unpacking(d).read(begin, count, type);
    // Axes of one cell that nobody asked for go first, then are dropped.
    std::vector<int> order;
    for (int i = 0; i < values.rank(); ++i)
      if (std::find(places.begin(), places.end(), i) == places.end()) order.push_back(i);
    const size_t n_extra = order.size();
    order.insert(order.end(), places.begin(), places.end());
    const Tensor turned = permute(values, order);
    Shape shape;
    for (size_t i = n_extra; i < order.size(); ++i)
      shape = shape.append(turned.size(static_cast<int>(i)));
    return turned.reshape(shape);
  });
}

Tensor NetcdfFile::read_block(const std::string& variable, std::span<const int64_t> begin,
                              std::span<const int64_t> count, DType type) const {
  hdf5::Lock lock;
  const hdf5::Dataset d = file_.open_dataset(variable);
  return Unpacking(d).read(begin, count, type);
}

Tensor NetcdfFile::read_whole_block(const std::string& variable, std::span<const int64_t> begin,
                                    std::span<const int64_t> count) const {
  hdf5::Lock lock;
  const hdf5::Dataset d = file_.open_dataset(variable);
  return Unpacking(d).read_whole(begin, count);
}

bool NetcdfFile::is_packed(const std::string& variable) const {
  hdf5::Lock lock;
  const hdf5::Dataset d = file_.open_dataset(variable);
  return Unpacking(d).is_scaled();
}

DType NetcdfFile::unpacked_type(const std::string& variable) const {
  hdf5::Lock lock;
  const hdf5::Dataset d = file_.open_dataset(variable);
  d.type().dtype();  // refuses text and the like by name
  return Unpacking(d).type();
}

Axis NetcdfFile::axis(const std::string& name) const {
  hdf5::Lock lock;
  Axis axis;
  axis.name = name;
  if (!is_variable(name)) return axis;
  const VariableInfo info = this->info(name);
  if (info.extents.size() != 1) return axis;
  axis.units = info.units;
  if (info.dimensions[0] == name)
    axis.centres = read(name, {name}, {}, DType::f64).to_vector<double>();
  return axis;
}

Axis NetcdfFile::axis(const std::string& name, int64_t cells) const {
  Axis axis = this->axis(name);
  const auto values = static_cast<int64_t>(axis.centres.size());
  BORA_CHECK(axis.centres.empty() || values == cells, "'", path(), "', coordinate '", name,
             "' has ", values, " values, wanted one for each of the ", cells,
             " cells of its axis; was the field written for a part of an unlimited dimension?");
  return axis;
}

Volume NetcdfFile::read_volume(const std::string& variable, const std::vector<std::string>& axes,
                               const std::vector<Range>& ranges) const {
  hdf5::Lock lock;
  BORA_CHECK(axes.size() == 3, "read_volume: ", axes.size(), " axes, wanted 3");
  Volume volume;
  volume.name = variable;
  const VariableInfo info = this->info(variable);
  volume.units = info.units;
  volume.values = read(variable, axes, ranges, DType::f32);  // knows its axes from here
  for (size_t i = 0; i < 3; ++i) {
    const auto place = std::find(info.dimensions.begin(), info.dimensions.end(), axes[i]);
    volume.axes[i] =
        axis(axes[i], info.extents[static_cast<size_t>(place - info.dimensions.begin())]);
    auto& centres = volume.axes[i].centres;
    if (centres.empty() || ranges.empty()) continue;
    const auto first = centres.begin() + ranges[i].begin;
    centres = {first, first + volume.values.size(static_cast<int>(i))};
  }
  return volume;
}

}  // namespace bora::data
