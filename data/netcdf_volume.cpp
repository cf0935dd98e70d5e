// SPDX-License-Identifier: Apache-2.0
#include "data/netcdf_volume.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/error.hpp"
#include "data/hdf5_layout.hpp"
#include "data/hdf5_stored.hpp"
#include "data/netcdf.hpp"
#include "data/recent.hpp"
#include "data/volume_axes.hpp"

namespace bora::data {

namespace {

using Kind = hdf5::TypeInfo::Kind;

bool is_number(const VariableInfo& v) {
  return v.type.kind == Kind::integer || v.type.kind == Kind::floating;
}

/// Axes with more than one cell; three make a field, four one with channels.
size_t n_real_axes(const VariableInfo& v) {
  return static_cast<size_t>(
      std::count_if(v.extents.begin(), v.extents.end(), [](int64_t e) { return e != 1; }));
}

std::string only_field(const NetcdfFile& file) {
  std::vector<std::string> fields, all = file.variables();
  for (const std::string& name : all) {
    const VariableInfo v = file.info(name);
    if (is_number(v) && v.extents.size() >= 3 && n_real_axes(v) <= 4) fields.push_back(name);
  }
  if (fields.size() == 1) return fields[0];
  BORA_CHECK(!fields.empty(), "'", file.path(),
             "' has no variable of numbers with 3 dimensions (or 4 with channels); it has ",
             hdf5::detail::list_of(all));
  BORA_FAIL("'", file.path(),
            "' has several variables that could be meant: ", hdf5::detail::list_of(fields),
            "; name one as the variable");
}

/// A dimension's name, or "X", "Y", "Z" where its coordinate variable says which axis it is (CF).
std::string name_of_axis(const NetcdfFile& file, const std::string& dimension) {
  if (!file.is_variable(dimension)) return dimension;
  const hdf5::Dataset d = file.hdf5().open_dataset(dimension);
  if (!d.has_attribute("axis") || d.attribute_type("axis").kind != Kind::text) return dimension;
  const std::string axis = d.attribute<std::string>("axis");
  return axis == "X" || axis == "Y" || axis == "Z" ? axis : dimension;
}

VolumeAxes axes_of(const NetcdfFile& file, const VariableInfo& v, const std::string& order) {
  if (!order.empty()) return axes_from_order(order, v.extents.size());
  check_dimension_names(v);
  std::vector<std::string> names;
  for (const std::string& dimension : v.dimensions) names.push_back(name_of_axis(file, dimension));
  const std::optional<VolumeAxes> axes = axes_from_names(names, v.extents);
  BORA_CHECK(axes, "its dimensions are ", hdf5::detail::list_of(v.dimensions),
             ", of which x, y and z cannot be told; set the order, slowest axis first (\"zyx\")");
  return *axes;
}

/// The distance of evenly spaced centres, else 0.  Coordinates are often f32, hence the bound: a
/// thousandth of a cell.
double spacing_of(const std::vector<double>& centres) {
  if (centres.size() < 2) return 0;
  const double step = (centres.back() - centres.front()) / static_cast<double>(centres.size() - 1);
  for (size_t i = 1; i < centres.size(); ++i)
    if (!(std::abs(centres[i] - centres[i - 1] - step) <= 1e-3 * std::abs(step))) return 0;
  return std::abs(step);
}

class NetcdfVolume : public VolumeFile {
 public:
  explicit NetcdfVolume(const VolumeSource& source) {
    hdf5::Lock lock;
    file_ = NetcdfFile::open(source.path);
    info_.source = source;
    info_.format = "NetCDF-4";
    if (source.variable.empty()) info_.source.variable = only_field(file_);
    const VariableInfo v = file_.info(info_.source.variable);
    with_context(label_of(info_.source), [&] {
      v.type.dtype();  // refuses what is not a number
      extents_ = v.extents;
      // Before anything is said of its axes: one of 0 cells would count as one of several.
      for (size_t i = 0; i < extents_.size(); ++i)
        BORA_CHECK(extents_[i] > 0, "dimension '", v.dimensions[i], "' has no cells");
      axes_ = axes_of(file_, v, source.order);
      const hdf5::Dataset d = file_.hdf5().open_dataset(info_.source.variable);
      describe_storage(d, axes_, info_);
      info_.is_scaled = file_.is_packed(info_.source.variable);
      info_.type = file_.unpacked_type(info_.source.variable);
      info_.unit = v.units;
      const int places[3] = {axes_.x, axes_.y, axes_.z};
      std::vector<std::string> units;
      for (size_t i = 0; i < 3; ++i) {
        const std::string& name = v.dimensions[static_cast<size_t>(places[i])];
        if (name.empty()) continue;
        const Axis& axis = coordinates_[i] =
            file_.axis(name, extents_[static_cast<size_t>(places[i])]);
        info_.spacing[i] = spacing_of(axis.centres);
        if (!axis.centres.empty()) units.push_back(axis.units);
      }
      if (units.size() == 3 && units[0] == units[1] && units[1] == units[2])
        info_.spacing_unit = units[0];
    });
  }

  const VolumeInfo& info() const override { return info_; }
  const std::array<Axis, 3>& coordinates() const { return coordinates_; }

  Tensor read(const Dims3& begin, const Dims3& count, DType type) const override {
    check_box(info_, begin, count);
    const ArrayBlock block = block_of_box(axes_, extents_, begin, count);
    return with_context(label_of(info_.source), [&] {
      if (!is_float(type)) {
        const Tensor values =
            file_.read_whole_block(info_.source.variable, block.begin, block.count);
        return whole_values(turn_to_volume(values, axes_), type, info_, begin);
      }
      return turn_to_volume(file_.read_block(info_.source.variable, block.begin, block.count, type),
                            axes_);
    });
  }

 private:
  NetcdfFile file_;
  std::vector<int64_t> extents_;
  VolumeAxes axes_;
  VolumeInfo info_;
  std::array<Axis, 3> coordinates_;
};

}  // namespace

std::unique_ptr<VolumeFile> open_netcdf_volume(const VolumeSource& source) {
  return std::make_unique<NetcdfVolume>(source);
}

const std::array<Axis, 3>* coordinates_of(const VolumeFile& file) {
  const auto* netcdf = dynamic_cast<const NetcdfVolume*>(&file);
  return netcdf ? &netcdf->coordinates() : nullptr;
}

namespace {
bool has_netcdf4_marks(const std::string& path) {
  hdf5::Lock lock;
  const hdf5::File file = hdf5::File::open(path);
  if (file.has_attribute("_NCProperties") || file.has_attribute("_nc3_strict")) return true;
  for (const std::string& name : file.dataset_names()) {
    const hdf5::Dataset d = file.open_dataset(name);
    if (d.has_attribute("_Netcdf4Dimid") || d.has_attribute("_Netcdf4Coordinates")) return true;
  }
  return false;
}
}  // namespace

bool is_netcdf4(const std::string& path) {
  // Of files that were looked at before it is known: each of their arrays asks.
  static auto& known = *new Recent<const bool>(4096);  // threads may outlive main
  const std::string state = hdf5::detail::state_of_file(path);
  if (const auto answer = state.empty() ? nullptr : known.find(state)) return *answer;
  const bool answer = has_netcdf4_marks(path);
  if (!state.empty()) known.keep(state, std::make_shared<const bool>(answer));
  return answer;
}

}  // namespace bora::data
