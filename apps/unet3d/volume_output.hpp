// SPDX-License-Identifier: Apache-2.0
// VolumeOutput: a predicted volume, written in the format of the image it was predicted from.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.hpp"
#include "data/volume_file.hpp"

namespace bora::unet3d {

/// Planes along x, ascending.  Nothing is at the path before close(); without it nothing stays.
class VolumeOutput {
 public:
  virtual ~VolumeOutput() = default;
  /// (n, Y, Z) or (n, Y, Z, C) of the type, on the CPU.
  virtual void write(const Tensor& planes) = 0;
  /// Throws Error unless all planes were written, and for a full disk.
  virtual void close() = 0;
};

struct VolumeOutputOptions {
  std::string variable = "label";  ///< of HDF5 and NetCDF files
  DType type = DType::u8;          ///< u8 or i32: labels; f32: values
  int64_t channels = 1;
  std::string order = {};  ///< spatial axes of HDF5 files, slowest first; empty: "zyx"
  std::vector<std::pair<std::string, std::string>> attributes = {};  ///< of HDF5 and NetCDF files
};

/// What the name of a prediction ends with: ".nii.gz" for .nii.gz and the .hdr and .img pairs,
/// ".nii", ".nc" for NetCDF, ".h5" for all else (.npy, too: HDF5 is what this program writes
/// arrays into).
std::string output_ending(const std::string& image_path);
/// Whether an output of that name is one file rather than a folder.
bool is_output_file(const std::string& path);

/// A file on the grid of `like`: NIfTI for a path that ends in .nii or .nii.gz, with the header of
/// `like`, which must be NIfTI too; else HDF5 (readable as NetCDF-4) with one data set of
/// dimensions "z", "y", "x", channels first where there are several, and no coordinates.  The
/// volume is held in memory until close().  Throws UsageError for a path of another end.
std::unique_ptr<VolumeOutput> make_volume_output(const std::string& path,
                                                 const data::VolumeInfo& like,
                                                 const VolumeOutputOptions& options);

}  // namespace bora::unet3d
