// SPDX-License-Identifier: Apache-2.0
// The attributes are those of the "HDF5 Dimension Scale Specification" (CLASS, NAME,
// DIMENSION_LIST, REFERENCE_LIST) and of "NetCDF-4 file format" (_Netcdf4Dimid,
// _Netcdf4Coordinates).  Written by hand, since they need the C library only, not its high-level
// companion.
#include "data/hdf5_scales.hpp"

#include <hdf5.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "core/error.hpp"

namespace bora::data::hdf5 {

namespace {

constexpr const char* kNoVariable = "This is a netCDF dimension but not a netCDF variable.";

/// A fixed-length text with its final zero, as the specification wants it.
void set_class(Dataset& dataset, const char* name, const std::string& text) {
  const Id type(BORA_HDF5(H5Tcopy(H5T_C_S1)));
  BORA_HDF5(H5Tset_size(type.get(), text.size() + 1));
  const Id space(BORA_HDF5(H5Screate(H5S_SCALAR)));
  const Id attribute(
      BORA_HDF5(H5Acreate2(dataset.id(), name, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT)));
  BORA_HDF5(H5Awrite(attribute.get(), type.get(), text.c_str()));
}

void set_int(Dataset& dataset, const char* name, const std::vector<int>& values, bool scalar) {
  const hsize_t n = values.size();
  const Id space(scalar ? BORA_HDF5(H5Screate(H5S_SCALAR))
                        : BORA_HDF5(H5Screate_simple(1, &n, nullptr)));
  const Id attribute(BORA_HDF5(
      H5Acreate2(dataset.id(), name, H5T_NATIVE_INT, space.get(), H5P_DEFAULT, H5P_DEFAULT)));
  BORA_HDF5(H5Awrite(attribute.get(), H5T_NATIVE_INT, values.data()));
}

std::string last_part(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  // NetCDF-4 renames a variable that has a dimension's name but is not its coordinate.
  constexpr std::string_view kPrefix = "_nc4_non_coord_";
  return name.rfind(kPrefix, 0) == 0 ? name.substr(kPrefix.size()) : name;
}

std::string own_name(int64_t id) {
  const ssize_t length = BORA_HDF5(H5Iget_name(id, nullptr, 0));
  std::string name(static_cast<size_t>(length) + 1, '\0');
  BORA_HDF5(H5Iget_name(id, name.data(), name.size()));
  name.resize(static_cast<size_t>(length));
  return name;
}

/// An entry of a scale's REFERENCE_LIST: who uses it, along which axis.
struct Use {
  hobj_ref_t dataset;
  int dimension;
  int gap = 0;  // goes to the file too, as the padding that other writers have there
};
static_assert(sizeof(Use) == sizeof(hobj_ref_t) + 2 * sizeof(int));

Id use_type() {
  Id type(BORA_HDF5(H5Tcreate(H5T_COMPOUND, sizeof(Use))));
  BORA_HDF5(H5Tinsert(type.get(), "dataset", offsetof(Use, dataset), H5T_STD_REF_OBJ));
  BORA_HDF5(H5Tinsert(type.get(), "dimension", offsetof(Use, dimension), H5T_NATIVE_INT));
  return type;
}

/// What a scale says of its users; nothing unless it says so as the specification wants.
std::vector<Use> uses_of(const Dataset& scale) {
  if (!scale.has_attribute("REFERENCE_LIST") ||
      scale.attribute_type("REFERENCE_LIST").name != "compound")
    return {};
  const Id attribute(BORA_HDF5(H5Aopen(scale.id(), "REFERENCE_LIST", H5P_DEFAULT)));
  const Id space(BORA_HDF5(H5Aget_space(attribute.get())));
  const Id stored(BORA_HDF5(H5Aget_type(attribute.get())));
  const Id type = use_type();
  const int reference = H5Tget_member_index(stored.get(), "dataset");
  const int dimension = H5Tget_member_index(stored.get(), "dimension");
  const hssize_t n = BORA_HDF5(H5Sget_simple_extent_npoints(space.get()));
  constexpr hssize_t kMost = 1 << 20;
  if (reference < 0 || dimension < 0 || n <= 0 || n > kMost ||
      H5Tget_member_class(stored.get(), static_cast<unsigned>(reference)) != H5T_REFERENCE ||
      H5Tget_member_class(stored.get(), static_cast<unsigned>(dimension)) != H5T_INTEGER) {
    H5Eclear2(H5E_DEFAULT);
    return {};
  }
  std::vector<Use> uses(static_cast<size_t>(n));
  BORA_HDF5(H5Aread(attribute.get(), type.get(), uses.data()));
  return uses;
}

/// By what the scales of the group say.  DIMENSION_LIST says the same from the other side, but is a
/// list of lists: to read one, the library (1.10.8) copies from a damaged file behind its buffers.
std::vector<std::string> names_by_scales(const Group& parent, const Dataset& dataset, size_t rank) {
  hobj_ref_t own;
  BORA_HDF5(H5Rcreate(&own, dataset.id(), ".", H5R_OBJECT, -1));
  std::vector<std::string> names(rank);
  for (const std::string& name : parent.dataset_names()) {
    const Dataset scale = parent.open_dataset(name);
    if (!scale.has_attribute("CLASS")) continue;
    for (const Use& use : uses_of(scale))
      if (use.dataset == own && use.dimension >= 0 && static_cast<size_t>(use.dimension) < rank &&
          names[static_cast<size_t>(use.dimension)].empty())
        names[static_cast<size_t>(use.dimension)] = last_part(name);
  }
  return names;
}

/// By _Netcdf4Coordinates: numbers that the scales carry as _Netcdf4Dimid.
std::vector<std::string> names_by_number(const Group& parent, const std::vector<int64_t>& numbers) {
  std::map<int64_t, std::string> name_of_number;
  for (const std::string& name : parent.dataset_names()) {
    const Dataset scale = parent.open_dataset(name);
    if (scale.has_attribute("_Netcdf4Dimid") && scale.has_attribute("CLASS"))
      name_of_number[scale.attribute<int64_t>("_Netcdf4Dimid")] = last_part(name);
  }
  std::vector<std::string> names;
  for (int64_t number : numbers) names.push_back(name_of_number[number]);
  return names;
}

}  // namespace

std::vector<std::string> dimension_names(const Group& parent, const Dataset& dataset) {
  Lock lock;
  return with_context("reading the dimensions of '" + dataset.label() + "'", [&] {
    const size_t rank = dataset.extents().size();
    if (rank > 0 && dataset.has_attribute("DIMENSION_LIST"))
      return names_by_scales(parent, dataset, rank);
    if (dataset.has_attribute("_Netcdf4Coordinates")) {
      std::vector<std::string> names =
          names_by_number(parent, dataset.attribute<std::vector<int64_t>>("_Netcdf4Coordinates"));
      if (names.size() == rank) return names;
    }
    if (rank == 1 && dataset.has_attribute("CLASS") &&
        dataset.attribute<std::string>("CLASS") == "DIMENSION_SCALE")
      return std::vector<std::string>{last_part(own_name(dataset.id()))};
    return std::vector<std::string>(rank);
  });
}

std::vector<std::string> axis_names(const Group& file, const std::string& path,
                                    const Dataset& dataset) {
  Lock lock;
  std::vector<std::string> names(dataset.extents().size());
  const auto fill_in = [&](const std::vector<std::string>& others) {
    for (size_t i = 0; i < names.size() && i < others.size(); ++i)
      if (names[i].empty()) names[i] = others[i];
  };
  for (size_t cut = path.rfind('/'); cut != path.npos && cut > 0; cut = path.rfind('/', cut - 1))
    fill_in(dimension_names(file.open_group(path.substr(0, cut)), dataset));
  fill_in(dimension_names(file, dataset));
  if (dataset.has_attribute("DIMENSION_LABELS"))
    fill_in(dataset.attribute<std::vector<std::string>>("DIMENSION_LABELS"));
  return names;
}

void make_scale(Dataset& dataset, const std::string& name, int dimension_id,
                bool without_variable) {
  Lock lock;
  with_context("making '" + dataset.label() + "' a dimension", [&] {
    BORA_CHECK(dataset.extents().size() == 1, "wanted one axis, found ", dataset.extents().size());
    set_class(dataset, "CLASS", "DIMENSION_SCALE");
    // NetCDF-4 wants the length behind the sentence, ten places wide.
    std::string length = std::to_string(dataset.extents()[0]);
    length.insert(0, length.size() < 10 ? 10 - length.size() : 0, ' ');
    set_class(dataset, "NAME", without_variable ? kNoVariable + length : name);
    set_int(dataset, "_Netcdf4Dimid", {dimension_id}, true);
  });
}

void attach_scales(const std::vector<ScaledDataset>& datasets) {
  Lock lock;
  // In the order of first use, not of addresses, so that equal contents give equal bytes.
  std::vector<std::pair<Dataset*, std::vector<Use>>> uses;
  const auto list_of_uses = [&](Dataset* scale) -> std::vector<Use>& {
    for (auto& [known, list] : uses)
      if (known == scale) return list;
    return uses.emplace_back(scale, std::vector<Use>()).second;
  };
  for (const ScaledDataset& one : datasets) {
    Dataset* const dataset = one.dataset;  // clang 14 cannot capture a structured binding
    const std::vector<Dataset*>& scales = one.scales;
    with_context("attaching dimensions to '" + dataset->label() + "'", [&] {
      const std::vector<int64_t> extents = dataset->extents();
      BORA_CHECK(scales.size() == extents.size(), scales.size(), " scales for ", extents.size(),
                 " axes");
      hobj_ref_t self;
      BORA_HDF5(H5Rcreate(&self, dataset->id(), ".", H5R_OBJECT, -1));
      std::vector<hobj_ref_t> references(scales.size());
      std::vector<hvl_t> lists(scales.size());
      for (size_t i = 0; i < scales.size(); ++i) {
        BORA_CHECK(scales[i]->extents() == std::vector<int64_t>{extents[i]}, "axis ", i, " has ",
                   extents[i], " cells, its scale '", scales[i]->label(), "' another number");
        BORA_HDF5(H5Rcreate(&references[i], scales[i]->id(), ".", H5R_OBJECT, -1));
        lists[i] = {1, &references[i]};
        list_of_uses(scales[i]).push_back({self, static_cast<int>(i)});
      }
      const hsize_t n = scales.size();
      const Id type(BORA_HDF5(H5Tvlen_create(H5T_STD_REF_OBJ)));
      const Id space(BORA_HDF5(H5Screate_simple(1, &n, nullptr)));
      const Id attribute(BORA_HDF5(H5Acreate2(dataset->id(), "DIMENSION_LIST", type.get(),
                                              space.get(), H5P_DEFAULT, H5P_DEFAULT)));
      BORA_HDF5(H5Awrite(attribute.get(), type.get(), lists.data()));
    });
  }
  for (auto& [scale, list] : uses) {
    const hsize_t n = list.size();
    const Id type = use_type();
    const Id space(BORA_HDF5(H5Screate_simple(1, &n, nullptr)));
    const Id attribute(BORA_HDF5(H5Acreate2(scale->id(), "REFERENCE_LIST", type.get(), space.get(),
                                            H5P_DEFAULT, H5P_DEFAULT)));
    BORA_HDF5(H5Awrite(attribute.get(), type.get(), list.data()));
  }
}

}  // namespace bora::data::hdf5
