// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/volume_output.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "core/error.hpp"
#include "data/netcdf.hpp"
#include "data/nifti.hpp"
#include "data/permute.hpp"

namespace bora::unet3d {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

class NiftiOutput final : public VolumeOutput {
 public:
  NiftiOutput(const std::string& path, const data::VolumeInfo& like,
              const VolumeOutputOptions& options)
      : out_(path, {.file = like.source.path, .type = options.type, .channels = options.channels}) {
  }
  void write(const Tensor& planes) override { out_.write(planes); }
  void close() override { out_.close(); }

 private:
  data::NiftiLikeWriter out_;
};

class Hdf5Output final : public VolumeOutput {
 public:
  Hdf5Output(const std::string& path, const data::VolumeInfo& like, VolumeOutputOptions options)
      : out_(path),
        path_(path),
        options_(std::move(options)),
        values_(Tensor::empty({like.grid.d, like.grid.h, like.grid.w, options_.channels},
                              options_.type)) {}

  void write(const Tensor& planes) override {
    const int64_t n = planes.size(0), row = values_.numel() / std::max<int64_t>(values_.size(0), 1);
    BORA_CHECK(
        planes.dtype() == values_.dtype() && planes.numel() == n * row && n_ + n <= values_.size(0),
        "writing '", path_, "': planes ", planes.shape(), ' ', planes.dtype(), " behind ", n_,
        " of ", values_.shape());
    std::memcpy(static_cast<char*>(values_.raw()) + n_ * row * size_of(values_.dtype()),
                planes.raw(), static_cast<size_t>(planes.bytes()));
    n_ += n;
  }

  void close() override {
    BORA_CHECK(n_ == values_.size(0), "writing '", path_, "': ", n_, " planes of ", values_.size(0),
               " were written");
    const std::string axes = options_.order.empty() ? "zyx" : options_.order;
    std::vector<std::string> names;
    std::vector<int> order;
    Tensor values = values_;
    if (options_.channels > 1) {
      out_.dimension("class", options_.channels);
      names.emplace_back("class");
      order.push_back(3);
    } else {
      values = values.reshape({values.size(0), values.size(1), values.size(2)});
    }
    for (const char axis : axes) {
      out_.dimension(std::string(1, axis), values.size(axis - 'x'));
      names.emplace_back(1, axis);
      order.push_back(axis - 'x');
    }
    // Chunks along all axes, so that a patch of them is read alone; labels shrink to a tenth.
    std::vector<int64_t> chunk;
    for (const int axis : order)
      chunk.push_back(axis == 3 ? 1 : std::clamp<int64_t>(values.size(axis), 1, 64));
    out_.variable(options_.variable, names, data::permute(values, order),
                  {.chunk = chunk, .deflate = 4, .shuffle = size_of(options_.type) > 1});
    for (const auto& [name, text] : options_.attributes) out_.root().set_attribute(name, text);
    out_.close();
  }

 private:
  data::NetcdfWriter out_;
  std::string path_;
  VolumeOutputOptions options_;
  Tensor values_;  // (X, Y, Z, C)
  int64_t n_ = 0;
};

bool is_nifti(const std::string& path) {
  const std::string name = lower(path);
  return name.ends_with(".nii") || name.ends_with(".nii.gz");
}

bool is_hdf5(const std::string& path) {
  const std::string name = lower(path);
  return name.ends_with(".h5") || name.ends_with(".hdf5") || name.ends_with(".nc");
}

}  // namespace

std::string output_ending(const std::string& image_path) {
  const std::string name = lower(image_path);
  if (name.ends_with(".nii")) return ".nii";
  if (data::has_nifti_name(image_path)) return ".nii.gz";
  return name.ends_with(".nc") ? ".nc" : ".h5";
}

bool is_output_file(const std::string& path) { return is_nifti(path) || is_hdf5(path); }

std::unique_ptr<VolumeOutput> make_volume_output(const std::string& path,
                                                 const data::VolumeInfo& like,
                                                 const VolumeOutputOptions& options) {
  BORA_CHECK(options.order.empty() || options.order.size() == 3, "writing '", path, "': order '",
             options.order, "', wanted three axes");
  if (is_hdf5(path)) return std::make_unique<Hdf5Output>(path, like, options);
  if (!is_nifti(path))
    throw UsageError("output '" + path + "': wanted a name in .nii.gz, .nii, .h5, .hdf5 or .nc");
  if (!data::has_nifti_name(like.source.path))
    throw UsageError("output '" + path +
                     "': the header of a NIfTI file is that of the image, but '" +
                     like.source.path + "' is none; wanted a name in .h5");
  return std::make_unique<NiftiOutput>(path, like, options);
}

}  // namespace bora::unet3d
