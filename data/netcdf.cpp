// SPDX-License-Identifier: Apache-2.0
#include "data/netcdf.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "data/hdf5_scales.hpp"
#include "data/permute.hpp"

namespace bora::data {

namespace {

using hdf5::detail::list_of;

/// NetCDF's fill of each type; bytes have none that counts as missing.
std::optional<double> default_fill(const hdf5::TypeInfo& type) {
  if (type.name == "f32" || type.name == "f64") return 9.9692099683868690e+36;
  if (type.name == "i16") return -32767.0;
  if (type.name == "u16") return 65535.0;
  if (type.name == "i32") return -2147483647.0;
  if (type.name == "u32") return 4294967295.0;
  if (type.name == "i64") return -9223372036854775806.0;
  if (type.name == "u64") return 18446744073709551614.0;
  return std::nullopt;
}

/// How packed values become physical ones.
struct Unpacking {
  double scale = 1, offset = 0;
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  std::vector<double> missing;
  double wrap = 0;  // added to negative values: _Unsigned

  explicit Unpacking(const hdf5::Dataset& d) {
    const hdf5::TypeInfo type = d.type();
    const auto number = [&](const char* name, double& value) {
      if (d.has_attribute(name)) value = d.attribute<double>(name);
    };
    number("scale_factor", scale);
    number("add_offset", offset);
    number("valid_min", low);
    number("valid_max", high);
    if (d.has_attribute("valid_range")) {
      const auto range = d.attribute<std::vector<double>>("valid_range");
      BORA_CHECK(range.size() == 2, "'", d.label(), "': valid_range holds ", range.size(),
                 " values, wanted 2");
      low = range[0];
      high = range[1];
    }
    for (const char* name : {"_FillValue", "missing_value"})
      if (d.has_attribute(name))
        for (double v : d.attribute<std::vector<double>>(name)) missing.push_back(v);
    if (!d.has_attribute("_FillValue"))
      if (const auto fill = default_fill(type)) {
        // The f32 fill is the f64 one rounded.
        missing.push_back(type.name == "f32" ? static_cast<double>(static_cast<float>(*fill))
                                             : *fill);
      }
    if (type.kind == hdf5::TypeInfo::Kind::integer && type.is_signed &&
        d.has_attribute("_Unsigned") && d.attribute<std::string>("_Unsigned") == "true") {
      wrap = std::ldexp(1.0, static_cast<int>(8 * type.bytes));
      for (double& v : missing)
        if (v < 0) v += wrap;
    }
    BORA_CHECK(std::isfinite(scale) && std::isfinite(offset), "'", d.label(), "': scale_factor ",
               scale, " and add_offset ", offset, ", wanted finite numbers");
  }
  bool is_plain() const { return scale == 1 && offset == 0 && wrap == 0; }

  bool is_missing(double packed) const {
    if (packed < low || packed > high) return true;
    for (double m : missing)
      if (packed == m) return true;
    return false;
  }
  template <class In, class Out>
  void apply(const In* in, Out* out, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) {
      double value = static_cast<double>(in[i]);
      if (wrap != 0 && value < 0) value += wrap;
      out[i] = is_missing(value) ? std::numeric_limits<Out>::quiet_NaN()
                                 : static_cast<Out>(value * scale + offset);
    }
  }
};

/// For each wanted axis its place in the file.
std::vector<int> places_of(const VariableInfo& info, const std::vector<std::string>& axes) {
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

}  // namespace

NetcdfFile NetcdfFile::open(const std::string& path) {
  NetcdfFile file;
  file.file_ = hdf5::File::open(path);
  return file;
}

std::vector<std::string> NetcdfFile::variables() const {
  hdf5::Lock lock;
  std::vector<std::string> names;
  for (const std::string& name : file_.dataset_names()) {
    const hdf5::Dataset d = file_.open_dataset(name);
    const bool bare =
        d.has_attribute("CLASS") && d.has_attribute("NAME") &&
        d.attribute<std::string>("NAME").rfind("This is a netCDF dimension but", 0) == 0;
    if (!bare) names.push_back(name);
  }
  return names;
}

VariableInfo NetcdfFile::info(const std::string& variable) const {
  hdf5::Lock lock;
  BORA_CHECK(has(variable), "'", path(), "' has no variable '", variable, "'; it has ",
             list_of(variables()));
  const hdf5::Dataset d = file_.open_dataset(variable);
  VariableInfo info;
  info.name = variable;
  info.extents = d.extents();
  info.dimensions = hdf5::dimension_names(file_, d);
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
    const Unpacking unpacking(d);
    // The plain case goes without a copy in f64.
    const bool direct = unpacking.is_plain() && info.type.name == "f32" && type == DType::f32;
    Tensor packed = d.read(begin, count, direct ? DType::f32 : DType::f64);
    Tensor values = direct ? packed : Tensor::empty(packed.shape(), type);
    if (direct)
      unpacking.apply(packed.data<float>(), values.data<float>(), values.numel());
    else if (type == DType::f32)
      unpacking.apply(packed.data<double>(), values.data<float>(), values.numel());
    else
      unpacking.apply(packed.data<double>(), values.data<double>(), values.numel());
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

Axis NetcdfFile::axis(const std::string& name) const {
  hdf5::Lock lock;
  Axis axis;
  axis.name = name;
  const std::vector<std::string> names = variables();
  if (std::find(names.begin(), names.end(), name) == names.end()) return axis;
  const VariableInfo info = this->info(name);
  if (info.extents.size() != 1) return axis;
  axis.units = info.units;
  if (info.dimensions[0] == name)
    axis.centres = read(name, {name}, {}, DType::f64).to_vector<double>();
  return axis;
}

Volume NetcdfFile::read_volume(const std::string& variable, const std::vector<std::string>& axes,
                               const std::vector<Range>& ranges) const {
  hdf5::Lock lock;
  BORA_CHECK(axes.size() == 3, "read_volume: ", axes.size(), " axes, wanted 3");
  Volume volume;
  volume.name = variable;
  volume.units = info(variable).units;
  volume.values = read(variable, axes, ranges, DType::f32);
  for (size_t i = 0; i < 3; ++i) {
    volume.axes[i] = axis(axes[i]);
    auto& centres = volume.axes[i].centres;
    const int64_t first = ranges.empty() ? 0 : ranges[i].begin;
    const int64_t n = volume.values.size(static_cast<int>(i));
    if (static_cast<int64_t>(centres.size()) >= first + n)
      centres = {centres.begin() + first, centres.begin() + first + n};
  }
  return volume;
}

}  // namespace bora::data
