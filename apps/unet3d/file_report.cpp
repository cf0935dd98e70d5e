// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/file_report.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "apps/common/text.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "data/hdf5.hpp"
#include "data/netcdf.hpp"
#include "data/netcdf_volume.hpp"
#include "data/nifti_header.hpp"
#include "data/preflight.hpp"
#include "data/volume_read.hpp"

namespace bora::unet3d {
namespace {

using data::finds_none;
using Problems = std::vector<std::string>;
using Kind = data::hdf5::TypeInfo::Kind;

constexpr size_t kMostText = 200;  // bytes of a text that are shown
constexpr size_t kMostParts = 16;  // of an attribute's values

std::string name_text(const std::string& name) { return printable_line(name, kMostText); }

std::string extents_text(const data::VariableInfo& info) {
  std::string text;
  for (size_t i = 0; i < info.extents.size(); ++i)
    text += detail::join(i > 0 ? ", " : "",
                         info.dimensions.size() > i && !info.dimensions[i].empty()
                             ? name_text(info.dimensions[i]) + " "
                             : "",
                         info.extents[i]);
  return text;
}

template <class T, class ToText>
std::string list_text(const std::vector<T>& parts, ToText&& to_text) {
  std::string text;
  for (size_t i = 0; i < parts.size() && i < kMostParts; ++i)
    text += (i > 0 ? ", " : "") + to_text(parts[i]);
  return parts.size() > kMostParts ? detail::join(text, ", ... (", parts.size(), " values)") : text;
}

std::string attribute_text(const data::hdf5::Object& object, const std::string& name) {
  switch (object.attribute_type(name).kind) {
    case Kind::text:
      return list_text(object.attribute<std::vector<std::string>>(name), [](const auto& part) {
        return "\"" + printable_line(part, kMostText) + "\"";
      });
    case Kind::integer:
      if (object.attribute_type(name).is_signed)
        return list_text(object.attribute<std::vector<int64_t>>(name),
                         [](int64_t part) { return std::to_string(part); });
      return list_text(object.attribute<std::vector<uint64_t>>(name),
                       [](uint64_t part) { return std::to_string(part); });
    case Kind::floating:
      return list_text(object.attribute<std::vector<double>>(name), apps::six_digits);
    default:
      return "(" + object.attribute_type(name).name + ")";
  }
}

/// "units = \"m\", layout_id = 3": what people have written, not what the libraries need.
std::string attributes_text(const data::hdf5::Object& object, Problems& problems) {
  std::string text;
  for (const std::string& name : object.attribute_names()) {
    if (name == "CLASS" || name == "NAME" || name == "DIMENSION_LIST" || name == "REFERENCE_LIST" ||
        name.starts_with("_Netcdf4") || name.starts_with("_NC") || name.starts_with("_nc"))
      continue;
    std::string value = "(cannot be read)";
    finds_none(problems, [&] { value = attribute_text(object, name); });
    text += (text.empty() ? "" : ", ") + name_text(name) + " = " + value;
  }
  return text;
}

/// All arrays of a group and below, as paths.  `above`: the groups on the way; a link to one of
/// them goes round in circles.
void list_datasets(const data::hdf5::Group& group, const std::string& prefix,
                   std::vector<const data::hdf5::Group*> above, std::vector<std::string>& out,
                   Problems& problems) {
  above.push_back(&group);
  for (const std::string& name : group.names())
    finds_none(problems, [&] {
      if (group.is_dataset(name)) {
        out.push_back(prefix + name);
      } else if (group.is_group(name)) {
        const data::hdf5::Group below = group.open_group(name);
        const bool is_circle = std::any_of(above.begin(), above.end(),
                                           [&](const auto* g) { return g->is_same(below); });
        if (!is_circle) list_datasets(below, prefix + name + "/", above, out, problems);
      } else if (!group.exists(name)) {
        out.push_back(prefix + name);  // a link to nothing: told when it is looked at
      }
    });
}

/// The variables of a NetCDF-4 file: dimensions without one are no arrays.
void list_variables(const data::NetcdfFile& file, std::vector<std::string>& out,
                    Problems& problems) {
  for (const std::string& name : file.hdf5().names())
    finds_none(problems, [&] {
      if (file.is_variable(name)) out.push_back(name);
    });
}

std::string coordinate_text(const data::NetcdfFile& file, const data::VariableInfo& info) {
  const data::Axis axis = file.axis(info.name);
  if (axis.centres.empty()) return {};
  return detail::join(": ", apps::six_digits(axis.centres.front()), " to ",
                      apps::six_digits(axis.centres.back()));
}

/// The lines of one array.
std::string report_array(const data::NetcdfFile& file, const std::string& name,
                         const FieldReportOptions& options, Problems& problems) {
  const data::VariableInfo info = file.info(name);
  std::ostringstream out;
  out << "  " << name_text(name) << " (" << extents_text(info) << ") " << info.type.name;
  if (!info.units.empty() && info.units != "1") out << " in " << name_text(info.units);
  if (info.extents.size() < 3 || info.type.kind == Kind::text || info.type.kind == Kind::other) {
    std::string range = ": cannot be read";
    finds_none(problems, [&] { range = coordinate_text(file, info); });
    out << range << "\n";
    return out.str();
  }
  out << "\n";
  try {
    out << report_field({file.path(), name, options.order}, options, problems);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& e) {  // of one field, which may be of another use: no fault
    if (!options.variable.empty()) throw;
    out << "    cannot be read as a volume: " << printable(e.what()) << "\n";
  }
  finds_none(problems, [&] {
    const std::string a = attributes_text(file.hdf5().open_dataset(name), problems);
    if (!a.empty()) out << "    attributes: " << a << "\n";
  });
  return out.str();
}

std::string report_hdf5(const std::string& path, const FieldReportOptions& options,
                        Problems& problems) {
  bool is_netcdf = false;
  Problems told_below;  // that an array cannot be looked at is found again by listing them
  finds_none(told_below, [&] { is_netcdf = data::is_netcdf4(path); });
  const data::NetcdfFile file = data::NetcdfFile::open(path);
  std::ostringstream out;
  out << printable(path) << ": " << (is_netcdf ? "NetCDF-4" : "HDF5") << ", "
      << bytes_text(static_cast<int64_t>(std::filesystem::file_size(path))) << "\n";
  finds_none(problems, [&] {
    const std::string a = attributes_text(file.hdf5(), problems);
    if (!a.empty()) out << "  attributes: " << a << "\n";
  });
  std::vector<std::string> names;
  if (is_netcdf)
    list_variables(file, names, problems);
  else
    list_datasets(file.hdf5(), "", {}, names, problems);
  if (!options.variable.empty()) {
    if (std::find(names.begin(), names.end(), options.variable) == names.end())
      BORA_FAIL("'", path, "' has no variable '", options.variable, "'; it has ",
                data::hdf5::detail::list_of(names));
    names = {options.variable};
  }
  for (const std::string& name : names)
    if (!finds_none(problems, [&] { out << report_array(file, name, options, problems); }))
      out << "  " << name_text(name) << ": cannot be read\n";
  return out.str();
}

std::string form_text(int code) {
  switch (code) {
    case 0:
      return "none";
    case 1:
      return "scanner";
    case 2:
      return "aligned";
    case 3:
      return "Talairach";
    case 4:
      return "MNI 152";
    case 5:
      return "template";
  }
  return std::to_string(code);
}

std::string nifti_text(const data::NiftiHeader& h) {
  std::ostringstream out;
  out << "  dim";
  for (int i = 0; i < h.n_dims; ++i) out << (i > 0 ? "x" : " ") << h.dim[static_cast<size_t>(i)];
  out << " (i, j, k" << (h.n_dims > 3 ? ", t" : "") << "), datatype " << h.datatype
      << (h.is_swapped ? ", other byte order" : "") << ", qform " << form_text(h.qform_code)
      << ", sform " << form_text(h.sform_code) << ", slope " << apps::six_digits(h.slope)
      << ", intercept " << apps::six_digits(h.intercept);
  if (!h.description.empty()) out << ", \"" << name_text(h.description) << "\"";
  out << "\n";
  return out.str();
}

}  // namespace

std::string report_file(const std::string& path, const FieldReportOptions& options,
                        std::vector<std::string>& problems) {
  std::unique_ptr<data::VolumeFile> file;
  std::string failure;
  try {
    file = data::open_volume({path, options.variable, options.order});
  } catch (const UsageError&) {
    throw;
  } catch (const Error& e) {
    failure = e.what();
  }
  if (!file) {
    if (!options.picture.empty()) throw Error(failure);  // it wants one field
    // HDF5 with several fields, or none of three axes, still has something to say.
    try {
      return report_hdf5(path, options, problems);
    } catch (const Error& e) {
      throw Error(std::string(e.what()).find("has no variable") == std::string::npos ? failure
                                                                                     : e.what());
    }
  }
  const data::VolumeInfo info = file->info();
  file.reset();
  if (info.format == "NetCDF-4" || info.format == "HDF5")
    return report_hdf5(path, options, problems);
  std::ostringstream out;
  out << printable(path) << ": " << info.format << ", " << bytes_text(info.file_bytes) << "\n";
  if (info.format.starts_with("NIfTI")) out << nifti_text(data::read_nifti_header_of(path));
  out << report_field({path, options.variable, options.order}, options, problems);
  return out.str();
}

}  // namespace bora::unet3d
