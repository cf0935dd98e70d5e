// SPDX-License-Identifier: Apache-2.0
// NetCDF-4: variables with named dimensions, packing and missing values, over HDF5.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/hdf5.hpp"
#include "data/volume.hpp"

namespace bora::data {

/// What a file says about a variable, without reading its values.
struct VariableInfo {
  std::string name;
  std::vector<std::string> dimensions;  ///< in file order; empty text: an axis without a name
  std::vector<int64_t> extents;
  hdf5::TypeInfo type;
  std::string units;  ///< empty where the file gives none
};

/// Cells [begin, begin + count) of an axis; count < 0: to the end.
struct Range {
  int64_t begin = 0;
  int64_t count = -1;
};

/// Throws Error where a name stands twice: which axis is meant by it, nobody knows.
void check_dimension_names(const VariableInfo& variable);

/// A NetCDF-4 file that is open for reading.  The root group only.  Keep it no longer than a
/// reading scope.  Files of NetCDF-3, truncated or foreign ones are refused by name (hdf5::File).
class NetcdfFile {
 public:
  /// `unnamed`: names for the axes of variables whose axes have none (plain HDF5), slowest first;
  /// "c" stands for a channel axis, which not every variable has.
  static NetcdfFile open(const std::string& path, const std::vector<std::string>& unnamed = {});

  const std::string& path() const { return file_.path(); }
  std::vector<std::string> variables() const;
  bool has(const std::string& variable) const { return file_.is_dataset(variable); }
  /// Whether variables() lists it; asks about this one alone.
  bool is_variable(const std::string& name) const;
  /// Throws Error naming the file, the variable, and the variables that are there.
  VariableInfo info(const std::string& variable) const;

  /// Reads a variable, or a block of it, with its axes in the order of `axes` whatever their order
  /// in the file; axes of the file with one cell that are not asked for are left out.  Only the
  /// block is read from the file.  `ranges`: one for each axis, or empty for all.
  ///
  /// Values: stored * scale_factor + add_offset, missing ones NaN, by the rules that are written at
  /// data/netcdf_unpacking.hpp.  `type`: f32 or f64.
  Tensor read(const std::string& variable, const std::vector<std::string>& axes,
              const std::vector<Range>& ranges, DType type = DType::f32) const;

  /// A block of a variable with its axes as they are in the file: the same values.
  Tensor read_block(const std::string& variable, std::span<const int64_t> begin,
                    std::span<const int64_t> count, DType type) const;
  /// The same as i64 where all values are integers and none is missing, else as f64.
  Tensor read_whole_block(const std::string& variable, std::span<const int64_t> begin,
                          std::span<const int64_t> count) const;
  /// Whether it has a scale or an offset; and the type that holds every value that is not missing.
  bool is_packed(const std::string& variable) const;
  DType unpacked_type(const std::string& variable) const;

  /// A 3-D variable with its axes' coordinate variables (or none) and units.
  Volume read_volume(const std::string& variable, const std::vector<std::string>& axes,
                     const std::vector<Range>& ranges = {}) const;

  /// The coordinate variable of a dimension; without centres if there is none.
  Axis axis(const std::string& name) const;
  /// The same of an axis with so many cells; throws Error where it has another number of values.
  Axis axis(const std::string& name, int64_t cells) const;

  const hdf5::File& hdf5() const { return file_; }

 private:
  hdf5::File file_;
  std::vector<std::string> unnamed_;
};

/// Writes a NetCDF-4 file: dimensions with coordinates, variables, attributes.  Nothing is at
/// `path` before close(), which puts the finished file there by a rename (no sync to the disk);
/// without close() nothing stays behind.
class NetcdfWriter {
 public:
  explicit NetcdfWriter(const std::string& path);
  ~NetcdfWriter();
  NetcdfWriter(const NetcdfWriter&) = delete;
  NetcdfWriter& operator=(const NetcdfWriter&) = delete;

  /// A dimension with a coordinate variable (values: one axis); gives it back for attributes.
  hdf5::Dataset& coordinate(const std::string& name, const Tensor& values);
  /// A dimension without one.
  void dimension(const std::string& name, int64_t size);
  /// A variable over dimensions made before.  Types: f32, f64, u8, i32, i64.
  hdf5::Dataset& variable(const std::string& name, const std::vector<std::string>& dimensions,
                          const Tensor& values, const hdf5::Storage& storage = {});
  /// The same without values, which the caller writes (hdf5::Dataset::write) before close().
  hdf5::Dataset& declare(const std::string& name, const std::vector<std::string>& dimensions,
                         const Shape& shape, DType type, const hdf5::Storage& storage = {});
  /// The root group, for global attributes.
  hdf5::Group& root();
  /// Throws Error naming the file and the reason if something could not be written so far (a full
  /// disk), which the other functions do not notice.
  void check_written() const;
  /// Finishes and renames.  Throws Error naming the file and the reason; nothing stays behind then.
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A variable that is written as another file's variable is.
struct NetcdfLike {
  std::string file, variable;     ///< the other
  std::vector<std::string> axes;  ///< in the order that the values have
  /// Names for axes that have none in the other file (NetcdfFile::open); they get them here.
  std::vector<std::string> unnamed = {};
  std::string name;         ///< of the new variable
  DType type = DType::f32;  ///< f32 or f64
  /// Global attributes, (name, text), beside those of the other file, over which they win.
  std::vector<std::pair<std::string, std::string>> attributes = {};
  /// Attributes of the variable.  Empty: those of the other; else these alone.
  std::vector<std::pair<std::string, std::string>> variable_attributes = {};
};

/// Writes a variable on the grid of another file's variable, slab by slab: the same dimensions in
/// the same order, coordinate variables and attributes (packing and fill attributes are left out,
/// since the values are unpacked floats), chunks and compression, and global attributes.  Chunks
/// above 64 MiB are cut.  NaN stays NaN (_FillValue = NaN is set).  Nothing is at `path` before
/// close().
class NetcdfLikeWriter {
 public:
  NetcdfLikeWriter(const std::string& path, const NetcdfLike& like);
  ~NetcdfLikeWriter();
  NetcdfLikeWriter(const NetcdfLikeWriter&) = delete;
  NetcdfLikeWriter& operator=(const NetcdfLikeWriter&) = delete;

  /// The grid, in the order of `axes`.
  const Shape& shape() const;
  /// The next planes along axes[0]: (n, rest of the grid) of the type.  They are kept until a row
  /// of chunks is complete, so that none is compressed twice.  Throws Error for a full disk, too.
  void write(const Tensor& slab);
  /// Throws Error unless all planes were written.
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The same with all values at once: f32 or f64, axes in the order of `axes`.
void write_netcdf_like(const std::string& path, const std::string& like,
                       const std::string& like_variable, const std::vector<std::string>& axes,
                       const std::string& variable, const Tensor& values,
                       const std::vector<std::pair<std::string, std::string>>& attributes = {});

}  // namespace bora::data
