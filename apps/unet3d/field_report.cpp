// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/field_report.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <sstream>

#include "apps/common/text.hpp"
#include "core/error.hpp"
#include "data/beyond_range.hpp"
#include "data/field_figure.hpp"
#include "data/hdf5.hpp"
#include "data/netcdf.hpp"
#include "data/netcdf_volume.hpp"
#include "data/nifti_header.hpp"
#include "data/orientation.hpp"
#include "data/volume_read.hpp"

namespace bora::unet3d {
namespace {

constexpr size_t kMostListed = 20;

std::string number(double value) {
  std::ostringstream out;
  out.precision(6);
  out << value;
  return out.str();
}

std::string extents_text(const data::VariableInfo& info) {
  std::string text;
  for (size_t i = 0; i < info.extents.size(); ++i)
    text += detail::join(
        i > 0 ? ", " : "",
        info.dimensions.size() > i && !info.dimensions[i].empty() ? info.dimensions[i] + " " : "",
        info.extents[i]);
  return text;
}

/// "units = \"m\", layout_id = 3": what people have written, not what the libraries need.
std::string attributes_text(const data::hdf5::Object& object) {
  std::string text;
  for (const std::string& name : object.attribute_names()) {
    if (name == "CLASS" || name == "NAME" || name == "DIMENSION_LIST" || name == "REFERENCE_LIST" ||
        name.starts_with("_Netcdf4") || name.starts_with("_NC") || name.starts_with("_nc"))
      continue;
    std::string value;
    try {
      using Kind = data::hdf5::TypeInfo::Kind;
      const Kind kind = object.attribute_type(name).kind;
      if (kind == Kind::text) {
        for (const std::string& part : object.attribute<std::vector<std::string>>(name))
          value += (value.empty() ? "\"" : ", \"") + part + "\"";
      } else if (kind == Kind::integer) {
        for (const int64_t part : object.attribute<std::vector<int64_t>>(name))
          value += (value.empty() ? "" : ", ") + std::to_string(part);
      } else {
        for (const double part : object.attribute<std::vector<double>>(name))
          value += (value.empty() ? "" : ", ") + number(part);
      }
    } catch (const Error&) {
      value = "(" + object.attribute_type(name).name + ")";
    }
    text += (text.empty() ? "" : ", ") + name + " = " + value;
  }
  return text;
}

std::string values_text(const data::VolumeInfo& info, const data::ValueSummary& v) {
  std::ostringstream out;
  const int64_t total = v.n() + v.n_nan() + v.n_infinite();
  out << "    values: " << total << ", ";
  if (v.n() == 0)
    out << "none finite";
  else
    out << "min " << number(v.min()) << ", max " << number(v.max()) << ", mean "
        << number(v.moments().mean) << ", sigma " << number(std::sqrt(v.moments().variance()));
  out << (v.n_nan() == 0 ? std::string("; no NaN")
                         : detail::join("; ", v.n_nan(), " NaN or missing"));
  if (v.n_infinite() > 0) out << "; " << v.n_infinite() << " infinite";
  if (v.n() > 0 && (data::is_beyond_f32(v.min()) || data::is_beyond_f32(v.max())))
    out << "; some " << data::kBeyondF32;
  out << "\n";
  if (v.n() > 0 && v.distinct().empty()) {
    out << "    percentiles:";
    for (const double p : {0.5, 5.0, 25.0, 50.0, 75.0, 95.0, 99.5})
      out << (p == 0.5 ? " " : ", ") << number(p) << " %: " << number(v.percentile(p));
    out << "\n";
  }
  if (!v.distinct().empty() && (v.are_whole() || v.distinct().size() <= kMostListed)) {
    out << "    " << v.distinct().size() << " distinct value"
        << (v.distinct().size() == 1 ? "" : "s") << ":";
    size_t n = 0;
    for (const auto& [value, count] : v.distinct()) {
      if (n++ == kMostListed) {
        out << ", and " << v.distinct().size() - kMostListed << " more";
        break;
      }
      out << (n == 1 ? " " : ", ") << number(value) << ": " << count << " ("
          << apps::brief(100.0 * static_cast<double>(count) / static_cast<double>(v.n())) << " %)";
    }
    out << "\n";
  }
  if (const std::string guess = guess_kind(info, v); !guess.empty())
    out << "    this looks like " << guess << "\n";
  return out.str();
}

void draw(const std::string& path, const data::VolumeFile& file, const data::ValueSummary& v) {
  const data::VolumeInfo& info = file.info();
  Tensor values = file.read({0, 0, 0}, info.grid, DType::f32);  // (X, Y, Z, C)
  if (info.channels > 1) {
    Tensor first = Tensor::empty({info.grid.d, info.grid.h, info.grid.w}, DType::f32);
    for (int64_t i = 0; i < first.numel(); ++i)
      first.data<float>()[i] = values.data<float>()[i * info.channels];
    values = first;
  }
  const bool few = !v.distinct().empty();
  data::draw_field(
      path, {.title = std::filesystem::path(info.source.path).filename().string(),
             .subtitle = detail::join(info.format, ", ", info.grid, " cells, ",
                                      info.channels > 1 ? "first channel, " : "", info.stored_type),
             .quantity = info.unit.empty() ? info.source.variable
                                           : info.source.variable + " (" + info.unit + ")",
             .values = values.reshape({info.grid.d, info.grid.h, info.grid.w}),
             .spacing = info.spacing,
             .low = few ? v.min() : v.percentile(0.5),
             .high = few ? v.max() : v.percentile(99.5)});
}

/// The lines of one field.
std::string report_field(const data::VolumeSource& source, const FieldReportOptions& options) {
  const std::unique_ptr<data::VolumeFile> file = data::open_volume(source);
  const data::VolumeInfo& info = file->info();
  std::ostringstream out;
  out << "    grid along x, y, z: " << info.grid << " cells";
  if (info.channels > 1) out << ", " << info.channels << " channels";
  if (info.spacing[0] > 0)
    out << "; spacing " << number(info.spacing[0]) << " x " << number(info.spacing[1]) << " x "
        << number(info.spacing[2]) << " " << info.spacing_unit;
  out << "\n";
  if (info.affine) {
    out << "    orientation " << data::orientation_of(*info.affine) << ", affine";
    for (const auto& row : *info.affine)
      out << " [" << number(row[0]) << " " << number(row[1]) << " " << number(row[2]) << " "
          << number(row[3]) << "]";
    out << "\n";
  }
  const int64_t cells = info.grid.d * info.grid.h * info.grid.w * info.channels;
  int64_t bits = 0;  // "i16", "u8": of one value as it is stored
  for (size_t i = 1; i < info.stored_type.size() && std::isdigit(info.stored_type[i]); ++i)
    bits = 10 * bits + (info.stored_type[i] - '0');
  out << "    stored as " << info.stored_type << (info.is_scaled ? ", scaled on reading" : "")
      << ", ";
  if (info.chunk.empty())
    out << "in one piece";
  else
    out << "chunks of " << info.chunk.at(0) << "x" << info.chunk.at(1) << "x" << info.chunk.at(2)
        << " cells";
  out << ", codec " << (info.codec.empty() ? "none" : info.codec) << ": "
      << bytes_text(info.stored_bytes);
  if (bits > 0 && info.stored_bytes > 0)
    out << " for " << bytes_text(cells * bits / 8) << " of values, ratio "
        << apps::brief(static_cast<double>(cells * bits / 8) /
                       static_cast<double>(info.stored_bytes));
  out << "\n";
  if (!options.values) return out.str();
  const data::ValueSummary values = summarise(*file);
  out << values_text(info, values);
  if (!options.picture.empty()) {
    draw(options.picture, *file, values);
    out << "    drawn to " << options.picture << "\n";
  }
  return out.str();
}

/// All arrays of a group and below, as paths.
void list_datasets(const data::hdf5::Group& group, const std::string& prefix,
                   std::vector<std::string>& out) {
  for (const std::string& name : group.dataset_names()) out.push_back(prefix + name);
  for (const std::string& name : group.group_names())
    list_datasets(group.open_group(name), prefix + name + "/", out);
}

std::string coordinate_text(const data::NetcdfFile& file, const data::VariableInfo& info) {
  const data::Axis axis = file.axis(info.name);
  if (axis.centres.empty()) return {};
  return detail::join(": ", number(axis.centres.front()), " to ", number(axis.centres.back()));
}

std::string report_hdf5(const std::string& path, const FieldReportOptions& options) {
  const bool is_netcdf = data::is_netcdf4(path);
  const data::NetcdfFile file = data::NetcdfFile::open(path);
  std::ostringstream out;
  out << path << ": " << (is_netcdf ? "NetCDF-4" : "HDF5") << ", "
      << bytes_text(static_cast<int64_t>(std::filesystem::file_size(path))) << "\n";
  if (const std::string a = attributes_text(file.hdf5()); !a.empty())
    out << "  attributes: " << a << "\n";
  std::vector<std::string> names;
  if (is_netcdf)
    names = file.variables();
  else
    list_datasets(file.hdf5(), "", names);
  if (!options.variable.empty() &&
      std::find(names.begin(), names.end(), options.variable) == names.end())
    BORA_FAIL("'", path, "' has no variable '", options.variable, "'; it has ",
              data::hdf5::detail::list_of(names));
  size_t n_fields = 0;
  for (const std::string& name : names) {
    if (!options.variable.empty() && name != options.variable) continue;
    const data::VariableInfo info = file.info(name);
    out << "  " << name << " (" << extents_text(info) << ") " << info.type.name;
    if (!info.units.empty() && info.units != "1") out << " in " << info.units;
    const bool is_field = info.extents.size() >= 3 &&
                          info.type.kind != data::hdf5::TypeInfo::Kind::text &&
                          info.type.kind != data::hdf5::TypeInfo::Kind::other;
    out << (is_field ? "" : coordinate_text(file, info)) << "\n";
    if (!is_field) continue;
    BORA_CHECK(options.picture.empty() || n_fields == 0, "'", path,
               "' has several fields; a picture wants one: say --variable");
    ++n_fields;
    try {
      out << report_field({path, name, options.order}, options);
    } catch (const Error& e) {  // of one field: the others may be of use
      if (!options.variable.empty() || !options.picture.empty()) throw;
      out << "    cannot be read as a volume: " << e.what() << "\n";
    }
    const std::string a = attributes_text(file.hdf5().open_dataset(name));
    if (!a.empty()) out << "    attributes: " << a << "\n";
  }
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

}  // namespace

std::string bytes_text(int64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) value /= 1024, ++unit;
  return (unit == 0 || value >= 100 ? apps::fixed(value, 0) : apps::brief(value)) + " " +
         units[unit];
}

data::ValueSummary summarise(const data::VolumeFile& file) {
  data::ValueSummary values;
  const data::VolumeInfo& info = file.info();
  data::each_slab({{0, 0, 0}, info.grid}, info.channels, [&](const data::Box& box) {
    values.add(file.read(box.begin, box.count, DType::f64));
  });
  return values;
}

std::string guess_kind(const data::VolumeInfo& info, const data::ValueSummary& v) {
  if (v.n() == 0) return {};
  const auto& distinct = v.distinct();
  const std::string& unit = info.unit;
  const bool is_speed = unit == "m s-1" || unit == "m/s" || unit == "m s^-1";
  if (distinct.size() == 2 && distinct.contains(-1) && distinct.contains(1))
    return "a building mask: -1 building, 1 open";
  if (distinct.size() == 2 && distinct.contains(0) && distinct.contains(1))
    return "a mask, or labels of two classes: 0 and 1";
  if (is_speed || info.source.variable.find("wind") != std::string::npos)
    return v.min() >= 0 ? "a wind speed in m/s" : "a wind component in m/s";
  if (!distinct.empty() && v.are_whole() && v.min() >= 0)
    return detail::join(
        info.stored_type == "u8" && distinct.size() > 64 ? "an image of 8 bits, or " : "",
        "labels of ", distinct.size(), " classes");
  if (v.are_whole() && v.min() >= -1100 && v.min() <= -900 && v.max() >= 1000)
    return "CT in Hounsfield units: -1000 air, 0 water";
  if (v.min() == 0 && v.percentile(25) == 0) return "an image on a background of 0";
  return {};
}

std::string report_file(const std::string& path, const FieldReportOptions& options) {
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
    // HDF5 with several fields, or none of three axes, still has something to say.
    try {
      return report_hdf5(path, options);
    } catch (const Error& e) {
      throw Error(std::string(e.what()).find("has no variable") == std::string::npos ? failure
                                                                                     : e.what());
    }
  }
  const data::VolumeInfo info = file->info();
  file.reset();
  if (info.format == "NetCDF-4" || info.format == "HDF5") return report_hdf5(path, options);
  std::ostringstream out;
  out << path << ": " << info.format << ", " << bytes_text(info.file_bytes) << "\n";
  if (info.format.starts_with("NIfTI")) {
    const data::NiftiHeader h = data::read_nifti_header_of(path);
    out << "  dim";
    for (int i = 0; i < h.n_dims; ++i) out << (i > 0 ? "x" : " ") << h.dim[static_cast<size_t>(i)];
    out << " (i, j, k" << (h.n_dims > 3 ? ", t" : "") << "), datatype " << h.datatype
        << (h.is_swapped ? ", other byte order" : "") << ", qform " << form_text(h.qform_code)
        << ", sform " << form_text(h.sform_code) << ", slope " << number(h.slope) << ", intercept "
        << number(h.intercept);
    if (!h.description.empty()) out << ", \"" << h.description << "\"";
    out << "\n";
  }
  out << report_field({path, options.variable, options.order}, options);
  return out.str();
}

}  // namespace bora::unet3d
