// SPDX-License-Identifier: Apache-2.0
// NIfTI: volumes of NIfTI-1 and NIfTI-2 files, read as nibabel reads them, and written on the grid
// of another one.
#pragma once

#include <memory>
#include <string>

#include "core/tensor.hpp"
#include "data/volume_file.hpp"

namespace bora::data {

/// Opens .nii, .nii.gz, or .hdr and .img (each perhaps .gz; the name of either).  The cells (X, Y,
/// Z) are the file's (i, j, k), a fourth axis (times, channels) the channels; values and affine
/// equal nibabel's get_fdata() and affine.  Extensions are passed over.
///
/// A box of a plain file is read alone.  A gzip stream is unpacked up to the box each time, in the
/// first read() of an object to its end, so that the checksum is checked; the box and a slab are
/// held.  Keep volumes in a cache where many boxes of one are wanted.
///
/// Throws Error naming the file for what it cannot read (nifti_header.hpp), a file shorter than its
/// header says, and a damaged stream.
std::unique_ptr<VolumeFile> open_nifti_volume(const VolumeSource& source);

/// Whether a path ends in .nii, .hdr or .img, perhaps with .gz behind; any case.
bool has_nifti_name(const std::string& path);
/// Whether it ends in .img, perhaps with .gz behind: the values of a pair, which have no mark.
bool is_nifti_image(const std::string& path);

/// A volume that is written as another NIfTI file is.
struct NiftiLike {
  std::string file;         ///< the other; any that open_nifti_volume reads
  DType type = DType::f32;  ///< u8, i32, i64: labels; f32, f64: values
  int64_t channels = 1;     ///< more: along a fourth axis
};

/// Writes a field on the grid of another NIfTI file, with its header: version, byte order, forms,
/// sizes, units, description.  Changed: type (scl_slope 1, no intercept), display range, intent
/// (label for integer types, else none; the other's was of other values), no extensions, one file.
/// The name ends in .nii or .nii.gz (no time in the stream: the same bytes each time).
///
/// Planes come along x, which is the fastest axis of the file: the volume is held in memory until
/// close(), in its type.  Nothing is at `path` before close(), which syncs and renames.
class NiftiLikeWriter {
 public:
  /// Throws Error naming the file: another end of the name, a type that NIfTI has not, ...
  NiftiLikeWriter(const std::string& path, const NiftiLike& like);
  ~NiftiLikeWriter();
  NiftiLikeWriter(const NiftiLikeWriter&) = delete;
  NiftiLikeWriter& operator=(const NiftiLikeWriter&) = delete;

  const Dims3& grid() const;
  /// The next planes along x: (n, Y, Z) or (n, Y, Z, C) of the type, on the CPU.
  void write(const Tensor& planes);
  /// Throws Error unless all planes were written, and for a full disk; nothing is left then.
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The same with all values at once: (X, Y, Z) or (X, Y, Z, C).
void write_nifti_like(const std::string& path, const std::string& like, const Tensor& values);

}  // namespace bora::data
