// SPDX-License-Identifier: Apache-2.0
// NiftiHeader: what the first bytes of a NIfTI file say, checked, and the affine that follows.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/byte_source.hpp"
#include "data/dense_array.hpp"
#include "data/volume_file.hpp"

namespace bora::data {

/// The fields that are used, of both versions, in this machine's byte order.
struct NiftiHeader {
  int version = 1;          ///< 1 or 2
  bool is_swapped = false;  ///< the file has the other byte order than this machine
  bool is_pair = false;     ///< the values are in another file (.hdr and .img)
  int n_dims = 3;           ///< 1 to 7
  std::array<int64_t, 7> dim{1, 1, 1, 1, 1, 1, 1};
  int datatype = 0;
  double vox_offset = 0;
  double slope = 0, intercept = 0;  ///< as they stand there
  /// [0] is qfac (1 or -1), [1] to [3] the sizes; put right as nibabel does: 0 becomes 1, negative
  /// ones positive.
  std::array<double, 8> pixdim{};
  int qform_code = 0, sform_code = 0;  ///< 0 where the file has one that does not exist
  std::array<double, 3> quaternion{}, offset{};
  Affine sform{};
  int units = 0;
  int intent_code = 0;
  std::string description;
  std::vector<std::byte> bytes;  ///< 348 or 540, as they stand in the file

  int64_t size() const { return version == 1 ? 348 : 540; }
  /// The affine, as nibabel's get_best_affine: the sform if its code is not 0, else the qform, else
  /// pixdim about the centre of the grid with x to the left.  Throws Error (without the file's
  /// name) for a quaternion longer than 1.
  Affine affine() const;
  /// Of a step along x, y, z: "m", "mm", "um"; empty where the file does not say.
  std::string spacing_unit() const;
};

/// How the first bytes of a file look.
enum class NiftiMark { none, nifti, analyze };
/// By sizeof_hdr in either byte order and the magic; wants the first 348 bytes, or those that are
/// there.
NiftiMark nifti_mark(std::span<const std::byte> bytes);

/// Reads and checks the header at the start of a file.  Throws Error naming the file, what was
/// found and what was wanted: Analyze 7.5, dim[0] out of 1 to 7, dims below 1 or too large, a
/// datatype that cannot be read (by name) or whose bitpix differs, a bad vox_offset, forms that are
/// not finite, ...
NiftiHeader read_nifti_header(ByteSource& file);

/// The same by the file's name, either one of a pair.
NiftiHeader read_nifti_header_of(const std::string& path);

/// The array that a header describes, without its place in the file.  More than four axes: the
/// others must have extent 1.
DenseArray nifti_array(const NiftiHeader& header, const std::string& path);

/// The number type of a NIfTI datatype; nothing for those that are not read.
std::optional<NumberType> nifti_number(int datatype);
/// The datatype of a type of ours: u8, i32, i64, f32 or f64; Error for others.
int nifti_datatype(DType type);

}  // namespace bora::data
