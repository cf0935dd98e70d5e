// SPDX-License-Identifier: Apache-2.0
// Fields of any format rewritten as chunked HDF5 or NetCDF-4, from which patches come fast.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/hdf5.hpp"
#include "data/volume_file.hpp"

namespace bora::data {

/// How chunks are compressed: what every HDF5 library reads without plug-ins.
struct Codec {
  int deflate = 0;  ///< 0: not at all
  bool shuffle = false;
  /// "none", "deflate4", "deflate4+shuffle".
  std::string text() const;
  /// Throws UsageError for another text.
  static Codec from(const std::string& text);
  friend bool operator==(const Codec&, const Codec&) = default;
};

struct ConvertOptions {
  Dims3 patch;         ///< that will be read; 0 along an axis: all of it
  int threads = 2;     ///< that will read at the same time
  Codec codec;         ///< choose_codec() finds a good one
  bool verify = true;  ///< read back and compare every value
  bool to_ras =
      false;  ///< HDF5: axes put next to right, front and up; fields without an affine are an Error
};

/// A codec on a part of the data.
struct CodecFigures {
  Codec codec;
  double size_ratio = 1;   ///< bytes of the values over bytes in the file
  double patch_ms = 0;     ///< from the page cache, with all threads reading, a thread's share
  double patch_bytes = 0;  ///< stored, that a patch makes its reader read
  double write_mb_per_s = 0;
  /// Time of a patch when the storage gives so many bytes a second to all threads together.
  double patch_ms_from(double storage_bytes_per_s) const {
    return patch_ms + 1e3 * patch_bytes / storage_bytes_per_s;
  }
};
/// Measures none and deflate 1, 4 and 6 with and without shuffle on the middle of a field, up to
/// 128 cells along each axis, in a temporary file in `folder`, in turn; the least of 5 rounds. Some
/// seconds.  Throws Error for what cannot be read or written.
std::vector<CodecFigures> measure_codecs(const VolumeSource& source, const ConvertOptions& options,
                                         const std::string& folder);
/// The one with the shortest patch_ms_from(); of those within 5 % of it the smallest.
size_t best_codec(const std::vector<CodecFigures>& figures, double storage_bytes_per_s);

/// What becomes a data set of the output.
struct ConvertField {
  std::string name;  ///< "raw", "label", "weight"
  VolumeSource source;
};
struct Converted {
  int64_t bytes_before = 0;  ///< of the fields in their files
  int64_t bytes_after = 0;   ///< of the new file
  Dims3 chunk;               ///< of the first field
};

/// Writes fields as data sets of one HDF5 file: axes (x, y, z) with z fastest, (x, y, z, c) with
/// more than one channel, named by DIMENSION_LABELS; the stored type is kept (scaled or packed
/// values become f32 or f64).  Attributes of each: affine (3x4, rows, RAS+ mm: 12 numbers),
/// spacing, spacing_unit, units, source, source_format, as far as they are known.  The whole field
/// is held in memory.  The file appears whole or not at all (sync and rename).  Throws Error naming
/// the file and the reason, also when what was written reads back different.
Converted convert_to_hdf5(const std::string& output, const std::vector<ConvertField>& fields,
                          const ConvertOptions& options);

/// Rewrites a NetCDF-4 file with one chunked and compressed variable: dimensions, coordinates and
/// attributes are kept, as are packing and type.  Other variables of three axes and more are an
/// Error, since they would be lost; as are types other than f32, f64, u8, i32 and i64.
Converted convert_netcdf(const std::string& input, const std::string& variable,
                         const std::string& output, const ConvertOptions& options);

}  // namespace bora::data
