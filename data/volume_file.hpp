// SPDX-License-Identifier: Apache-2.0
// VolumeFile: one 3-D field in a file, whatever the format: what it is, and boxes of its values.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/shape.hpp"
#include "core/tensor.hpp"

namespace bora::data {

/// Where a field stands.
struct VolumeSource {
  std::string path;      ///< .nii, .nii.gz, .hdr or .img, .nc, .h5, .hdf5, .npy
  std::string variable;  ///< of NetCDF and HDF5; may be empty where the file has one 3-D field only
  /// Axes of an array without names (HDF5, .npy), slowest first: a permutation of "xyz", with "c"
  /// where there is a channel axis ("czyx", "zyxc").  Empty: the names in the file, or the form of
  /// the format (HDF5 and .npy: "zyx", or "czyx" with four axes).
  std::string order;
};

/// Voxel indices (i, j, k) to millimetres, x to the right, y to the front, z up (RAS+): rows of a
/// 3x4 matrix.
using Affine = std::array<std::array<double, 4>, 3>;

/// What a file says about its field, without reading the values.
struct VolumeInfo {
  VolumeSource source;
  std::string format;       ///< "NIfTI-1", "NIfTI-2", "NetCDF-4", "HDF5", "NumPy"
  Dims3 grid;               ///< cells along x, y, z
  int64_t channels = 1;     ///< or times, of a fourth axis
  DType type = DType::f32;  ///< the smallest of ours that holds every value that read() can give
  std::string stored_type;  ///< "i16", "u8", "f32, big-endian"
  bool is_scaled = false;   ///< values are slope * stored + intercept, or packed
  std::array<double, 3> spacing{0, 0, 0};  ///< of cells along x, y, z; 0 where the file gives none
  std::string spacing_unit;                ///< "mm", "m"; empty where the file gives none
  std::string unit;                        ///< of the values
  std::optional<Affine> affine;            ///< NIfTI: as nibabel has it
  std::vector<int64_t> chunk;  ///< cells of a chunk along x, y, z; empty: contiguous, or one stream
  std::string codec;           ///< "none", "gzip", "deflate 4, shuffle"
  int64_t stored_bytes = 0;    ///< of the field in the file
  int64_t file_bytes = 0;
};

/// Open for reading.  Use an object from one thread at a time; several objects, also of one file,
/// may be used at once.  Keep it no longer than a reading scope.
class VolumeFile {
 public:
  virtual ~VolumeFile() = default;
  virtual const VolumeInfo& info() const = 0;
  /// The cells [begin, begin + count) of the grid with all channels, (X, Y, Z, C) of `type`, z
  /// fastest but for the channel.  As f32 or f64: scaled or unpacked, missing values NaN.  As an
  /// integer type, for labels: throws Error naming the file and the cell for a value that is
  /// missing, not whole or out of range.  Throws Error naming the file and the reason for anything
  /// that cannot be read, and for a box that is not inside the grid.
  virtual Tensor read(const Dims3& begin, const Dims3& count, DType type) const = 0;
};

/// Opens by content where the format has a mark, else by the name's end.  Throws Error naming the
/// file, what was found and what was wanted.
std::unique_ptr<VolumeFile> open_volume(const VolumeSource& source);

}  // namespace bora::data
