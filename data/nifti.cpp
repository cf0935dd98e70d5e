// SPDX-License-Identifier: Apache-2.0
#include "data/nifti.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "data/byte_source.hpp"
#include "data/dense_array.hpp"
#include "data/nifti_header.hpp"
#include "data/orientation.hpp"

namespace bora::data {
namespace {

bool ends_with(const std::string& path, std::string_view end) {
  if (path.size() < end.size()) return false;
  return std::equal(end.begin(), end.end(), path.end() - std::ssize(end), [](char a, char b) {
    return a == std::tolower(static_cast<unsigned char>(b));
  });
}

/// The other file of a pair: "x.hdr.gz" for "x.img.gz", in the same case; where only one without or
/// with .gz is there, that.
std::string partner(const std::string& path, std::string_view wanted) {
  std::string stem = path, gz;
  if (ends_with(stem, ".gz")) {
    gz = stem.substr(stem.size() - 3);
    stem.resize(stem.size() - 3);
  }
  const bool has_end = ends_with(stem, ".hdr") || ends_with(stem, ".img");
  BORA_CHECK(has_end, "reading '", path,
             "': the header says that the values are in another file, but the name ends neither "
             "in .hdr nor in .img");
  const bool is_upper = std::isupper(static_cast<unsigned char>(stem.back())) != 0;
  stem.resize(stem.size() - 3);
  for (const char c : wanted)
    stem += is_upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
  const std::string other = gz.empty() ? (is_upper ? ".GZ" : ".gz") : "";
  const std::string same = stem + gz, different = stem + other;
  if (!std::filesystem::exists(same) && std::filesystem::exists(different)) return different;
  BORA_CHECK(std::filesystem::exists(same), "reading '", path, "': its ", wanted, " file '", same,
             "' is missing");
  return same;
}

/// The file with the header, by either name of a pair.
std::unique_ptr<ByteSource> open_header(const std::string& path) {
  return open_bytes(is_nifti_image(path) ? partner(path, "hdr") : path);
}

class NiftiFile final : public VolumeFile {
 public:
  explicit NiftiFile(const VolumeSource& source) {
    const std::string& path = source.path;
    BORA_CHECK(source.variable.empty(), "reading '", path, "': NIfTI has no variables, but '",
               source.variable, "' was asked for");
    BORA_CHECK(source.order.empty() || source.order == "xyz" || source.order == "xyzc", "reading '",
               path, "': the order of the axes is that of NIfTI, but '", source.order,
               "' was asked for");
    const bool is_values = is_nifti_image(path);
    file_ = open_header(path);
    const NiftiHeader header = read_nifti_header(*file_);
    array_ = nifti_array(header, file_->path());
    array_.offset = static_cast<int64_t>(header.vox_offset);
    info_.file_bytes = file_->file_bytes();
    if (header.is_pair) {
      file_ = open_bytes(partner(file_->path(), "img"));
      info_.file_bytes += file_->file_bytes();
    } else {
      BORA_CHECK(!is_values, "reading '", path, "': its header '", file_->path(),
                 "' says that the values are in that file");
    }
    check_length();

    info_.source = source;
    info_.format = header.version == 1 ? "NIfTI-1" : "NIfTI-2";
    info_.grid = array_.grid();
    info_.channels = array_.extents[3];
    info_.type = array_.smallest_type();
    info_.stored_type = array_.stored_type();
    info_.is_scaled = array_.is_scaled();
    info_.affine = header.affine();
    info_.spacing = voxel_sizes(*info_.affine);
    info_.spacing_unit = header.spacing_unit();
    info_.codec = file_->is_gzip() ? "gzip" : "none";
    info_.stored_bytes = file_->is_gzip() ? file_->file_bytes() : array_.bytes();
  }

  const VolumeInfo& info() const override { return info_; }

  Tensor read(const Dims3& begin, const Dims3& count, DType type) const override {
    Tensor out = read_box(*file_, array_, begin, count, type);
    file_->check_to_end();
    return out;
  }

 private:
  /// Before any memory is asked for.
  void check_length() const {
    const int64_t wanted = array_.bytes();
    const int64_t most = file_->most_bytes();
    BORA_CHECK(wanted <= most && array_.offset <= most - wanted, "reading '", file_->path(),
               "': the header says ", array_.extents[0], " x ", array_.extents[1], " x ",
               array_.extents[2], " x ", array_.extents[3], " cells of ", array_.stored_type(),
               " from byte ", array_.offset, " on, ",
               file_->is_gzip() ? "more than a gzip file of " : "but the file has ",
               file_->file_bytes(), file_->is_gzip() ? " bytes can hold" : " bytes");
  }

  std::unique_ptr<ByteSource> file_;
  DenseArray array_;
  VolumeInfo info_;
};

}  // namespace

std::unique_ptr<VolumeFile> open_nifti_volume(const VolumeSource& source) {
  return std::make_unique<NiftiFile>(source);
}

NiftiHeader read_nifti_header_of(const std::string& path) {
  return read_nifti_header(*open_header(path));
}

bool is_nifti_image(const std::string& path) {
  return ends_with(path, ".img") || ends_with(path, ".img.gz");
}

bool has_nifti_name(const std::string& path) {
  for (const char* end : {".nii", ".nii.gz", ".hdr", ".hdr.gz"})
    if (ends_with(path, end)) return true;
  return is_nifti_image(path);
}

}  // namespace bora::data
