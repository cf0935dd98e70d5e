// SPDX-License-Identifier: Apache-2.0
#include "data/convert.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "core/error.hpp"
#include "data/atomic_file.hpp"
#include "data/chunk_shape.hpp"
#include "data/hdf5_scales.hpp"
#include "data/netcdf.hpp"
#include "data/orientation.hpp"
#include "data/volume_axes.hpp"

namespace bora::data {

namespace {

Dims3 whole_where_0(const Dims3& patch, const Dims3& grid) {
  return {patch.d > 0 ? patch.d : grid.d, patch.h > 0 ? patch.h : grid.h,
          patch.w > 0 ? patch.w : grid.w};
}

/// A file that gets its name when it is whole.
class NewFile {
 public:
  explicit NewFile(const std::string& path) : path_(path), temporary_(temporary_beside(path)) {}
  ~NewFile() {
    std::error_code ignored;
    if (!done_) std::filesystem::remove(temporary_, ignored);
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  const std::string& temporary() const { return temporary_; }
  void commit() {
    commit_temporary(temporary_, path_);
    done_ = true;
  }

 private:
  std::string path_, temporary_;
  bool done_ = false;
};

void expect_same(const Tensor& wanted, const Tensor& found, const std::string& what) {
  const bool same = wanted.shape() == found.shape() && wanted.dtype() == found.dtype() &&
                    (wanted.numel() == 0 || std::memcmp(wanted.raw(), found.raw(),
                                                        static_cast<size_t>(wanted.bytes())) == 0);
  BORA_CHECK(same, what, " reads back different from what was written");
}

/// The type that HDF5 shall store: "i16" of "i16, big-endian"; scaled values have a new one.
std::string stored_type(const VolumeInfo& info) {
  if (info.is_scaled) return std::string(name_of(info.type));
  return info.stored_type.substr(0, info.stored_type.find(','));
}

/// Turns a field's values, and what is known of them, to right, front and up.
void turn_to_ras(Tensor& values, VolumeInfo& info) {
  BORA_CHECK(
      info.affine, "'", info.source.path,
      "' has no affine: which way its axes run is not known (--orientation=stored keeps them)");
  const AxisDirections directions = directions_of(*info.affine);
  Reoriented turned = to_ras(values, *info.affine);
  const std::array<double, 3> was = info.spacing;
  for (size_t j = 0; j < 3; ++j) info.spacing[static_cast<size_t>(directions.axis[j])] = was[j];
  values = std::move(turned.values);
  info.affine = turned.affine;
  info.grid = {values.size(0), values.size(1), values.size(2)};
}

hdf5::Dataset write_field(hdf5::File& file, const ConvertField& field, const VolumeInfo& info,
                          const Tensor& values, const ConvertOptions& options, Dims3* chunk) {
  const Dims3 patch = whole_where_0(options.patch, info.grid);
  *chunk = chunk_for_patch(info.grid, patch, info.channels * size_of(info.type));
  hdf5::Storage storage{.chunk = {chunk->d, chunk->h, chunk->w},
                        .deflate = options.codec.deflate,
                        .shuffle = options.codec.shuffle};
  std::vector<std::string> labels{"x", "y", "z"};
  Shape shape{info.grid.d, info.grid.h, info.grid.w};
  if (info.channels > 1) {
    storage.chunk.push_back(info.channels);
    labels.emplace_back("c");
    shape = shape.append(info.channels);
  }
  hdf5::Dataset d = file.create_dataset(field.name, shape, stored_type(info), storage);
  d.write(values.reshape(shape));
  d.set_attribute("DIMENSION_LABELS", labels);
  if (info.affine) {
    std::vector<double> numbers;
    for (const auto& row : *info.affine) numbers.insert(numbers.end(), row.begin(), row.end());
    d.set_attribute("affine", numbers);
  }
  if (std::all_of(info.spacing.begin(), info.spacing.end(), [](double s) { return s > 0; })) {
    d.set_attribute("spacing", std::vector<double>(info.spacing.begin(), info.spacing.end()));
    if (!info.spacing_unit.empty()) d.set_attribute("spacing_unit", info.spacing_unit);
  }
  if (!info.unit.empty()) d.set_attribute("units", info.unit);
  d.set_attribute("source", std::filesystem::path(field.source.path).filename().string());
  d.set_attribute("source_format", info.format);
  return d;
}

}  // namespace

Converted convert_to_hdf5(const std::string& output, const std::vector<ConvertField>& fields,
                          const ConvertOptions& options) {
  BORA_CHECK(!fields.empty(), "converting to '", output, "': no fields");
  return with_context("converting to '" + output + "'", [&] {
    Converted result;
    NewFile target(output);
    std::vector<Tensor> written;
    {
      hdf5::File file = hdf5::File::create(target.temporary());
      for (const ConvertField& field : fields) {
        const std::unique_ptr<VolumeFile> volume = open_volume(field.source);
        VolumeInfo info = volume->info();
        // All at once: a gzip stream, or planes along another axis, would be read many times.
        Tensor values = volume->read({0, 0, 0}, info.grid, info.type);
        if (options.to_ras) turn_to_ras(values, info);
        Dims3 chunk;
        write_field(file, field, info, values, options, &chunk);
        if (&field == &fields.front()) result.chunk = chunk;
        result.bytes_before += info.stored_bytes;
        if (options.verify) written.push_back(values);
      }
      file.close();
    }
    for (size_t i = 0; i < written.size(); ++i) {
      const auto back = open_volume({target.temporary(), fields[i].name, {}});
      expect_same(written[i], back->read({0, 0, 0}, back->info().grid, written[i].dtype()),
                  "'" + fields[i].name + "'");
    }
    result.bytes_after = static_cast<int64_t>(std::filesystem::file_size(target.temporary()));
    target.commit();
    return result;
  });
}

Converted convert_netcdf(const std::string& input, const std::string& variable,
                         const std::string& output, const ConvertOptions& options) {
  return with_context("converting '" + input + "' to '" + output + "'", [&] {
    Converted result;
    NewFile target(output);
    const NetcdfFile in = NetcdfFile::open(input);
    const VariableInfo info = in.info(variable);
    BORA_CHECK(info.extents.size() == 3, "variable '", variable, "' has ", info.extents.size(),
               " dimensions, wanted 3");
    Tensor values;
    {
      NetcdfWriter out(target.temporary());
      const auto copy = [](const hdf5::Dataset& from, hdf5::Dataset& to) {
        for (const std::string& name : from.attribute_names())
          if (!to.has_attribute(name) && name != "DIMENSION_LIST" && name != "REFERENCE_LIST" &&
              name != "CLASS" && name != "NAME" && !name.starts_with("_Netcdf4") &&
              name != "_NCProperties")
            from.copy_attribute(name, to);
      };
      const auto read = [&](const std::string& name) {
        const hdf5::Dataset d = in.hdf5().open_dataset(name);
        const hdf5::TypeInfo type = d.type();
        BORA_CHECK(name_of(type.dtype()) == type.name, "variable '", name, "' is of type ",
                   type.name, "; f32, f64, u8, i32 and i64 can be written");
        return d.read();
      };
      const std::vector<std::string> names = in.variables();
      for (const std::string& name : names) {
        const bool known = name == variable || in.info(name).extents.size() <= 1;
        BORA_CHECK(known, "variable '", name, "' of ", in.info(name).extents.size(),
                   " dimensions would be lost; convert files of one field");
      }
      for (size_t i = 0; i < 3; ++i) {
        const std::string& name = info.dimensions[i];
        BORA_CHECK(!name.empty(), "axis ", i, " of '", variable, "' has no name");
        if (std::find(names.begin(), names.end(), name) != names.end())
          copy(in.hdf5().open_dataset(name), out.coordinate(name, read(name)));
        else
          out.dimension(name, info.extents[i]);
      }
      const auto axes = axes_from_names(info.dimensions, info.extents);
      const std::array<int, 3> place =
          axes ? std::array{axes->x, axes->y, axes->z} : std::array{0, 1, 2};
      const auto extent = [&](int i) { return info.extents[static_cast<size_t>(place[i])]; };
      const Dims3 grid{extent(0), extent(1), extent(2)};
      values = read(variable);
      result.chunk = chunk_for_patch(grid, whole_where_0(options.patch, grid), info.type.bytes);
      hdf5::Storage storage{.chunk = std::vector<int64_t>(3, 1),
                            .deflate = options.codec.deflate,
                            .shuffle = options.codec.shuffle};
      for (int i = 0; i < 3; ++i) storage.chunk[static_cast<size_t>(place[i])] = result.chunk[i];
      const hdf5::Dataset source = in.hdf5().open_dataset(variable);
      copy(source, out.variable(variable, info.dimensions, values, storage));
      // Numbers without axes, and what is said of the whole file.
      for (const std::string& name : names)
        if (in.info(name).extents.empty())
          copy(in.hdf5().open_dataset(name), out.variable(name, {}, read(name)));
      for (const std::string& name : in.hdf5().attribute_names())
        if (!out.root().has_attribute(name) && name != "_NCProperties")
          in.hdf5().copy_attribute(name, out.root());
      result.bytes_before = source.stored_bytes();
      out.close();
    }
    if (options.verify)
      expect_same(values, hdf5::File::open(target.temporary()).open_dataset(variable).read(),
                  "'" + variable + "'");
    result.bytes_after = static_cast<int64_t>(std::filesystem::file_size(target.temporary()));
    target.commit();
    return result;
  });
}

}  // namespace bora::data
