// SPDX-License-Identifier: Apache-2.0
#include "data/volume_file.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>
#include <string_view>

#include "core/error.hpp"
#include "data/byte_source.hpp"
#include "data/hdf5_volume.hpp"
#include "data/netcdf.hpp"
#include "data/netcdf_volume.hpp"
#include "data/nifti.hpp"
#include "data/nifti_header.hpp"
#include "data/npy.hpp"

namespace bora::data {
namespace {

/// Formats that people give by mistake, told by name.
struct Stranger {
  std::string_view mark;
  size_t at;
  const char* name;
};
constexpr Stranger kStrangers[] = {
    {"PK\x03\x04", 0, "a zip archive (as .npz)"},
    {"BZh", 0, "a bzip2 file"},
    {"\xfd"
     "7zXZ",
     0, "an xz file"},
    {"\x28\xb5\x2f\xfd", 0, "a zstd file"},
    {"DICM", 128, "a DICOM file"},
    {"NRRD", 0, "an NRRD file"},
    {"ObjectType", 0, "a MetaImage header"},
    {"MATLAB", 0, "a MATLAB file before 7.3"},
    {"\x89PNG", 0, "a PNG picture"},
    {{"II*\0", 4}, 0, "a TIFF picture"},
    {{"MM\0*", 4}, 0, "a TIFF picture"},
    {"%PDF", 0, "a PDF"},
    {"version https://git-lfs", 0, "a pointer of Git LFS, whose file was not fetched"}};

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The first bytes for a message: "7b 22 61 (\"{\"a\")".
std::string shown(std::string_view bytes) {
  std::string hex, text;
  for (const char c : bytes.substr(0, 8)) {
    std::array<char, 4> pair{};
    std::snprintf(pair.data(), pair.size(), "%02x", static_cast<unsigned char>(c));
    if (!hex.empty()) hex += ' ';
    hex += pair.data();
    text += c >= ' ' && c <= '~' ? c : '.';
  }
  return hex + " ('" + text + "')";
}

std::unique_ptr<VolumeFile> open_hdf5(const VolumeSource& source) {
  std::string end = source.path.substr(source.path.rfind('.') + 1);
  for (char& c : end) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (end == "nc" || end == "nc4") return open_netcdf_volume(source);
  if (auto known = open_known_hdf5_volume(source)) return known;
  if (is_netcdf4(source.path)) return open_netcdf_volume(source);
  return open_hdf5_volume(source);
}

}  // namespace

std::unique_ptr<VolumeFile> open_volume(const VolumeSource& source) {
  const std::string& path = source.path;
  std::array<std::byte, 348> start{};
  std::span<const std::byte> bytes;
  bool is_gzip = false, is_hdf5 = false;
  {
    const std::unique_ptr<ByteSource> file = open_bytes(path);
    is_gzip = file->is_gzip();
    const int64_t n = file->read_some(0, start.data(), std::ssize(start));
    bytes = std::span<const std::byte>(start).first(static_cast<size_t>(n));
    BORA_CHECK(file->file_bytes() > 0, "reading '", path, "': the file is empty");
    is_hdf5 = has_hdf5_mark(*file);
  }
  const std::string_view text = text_of(bytes);
  // The values of a pair have no mark: there the name counts.
  if (nifti_mark(bytes) != NiftiMark::none || is_nifti_image(path))
    return open_nifti_volume(source);
  if (!is_gzip) {
    if (is_hdf5) return open_hdf5(source);
    if (text.starts_with("CDF")) NetcdfFile::open(path);  // refuses with the way out
    if (text.starts_with("\x93NUMPY")) return open_npy_volume(source);
  }
  for (const Stranger& s : kStrangers)
    BORA_CHECK(text.size() < s.at || !text.substr(s.at).starts_with(s.mark), "reading '", path,
               "': this is ", s.name, is_gzip ? " inside gzip" : "",
               ", wanted NIfTI, NetCDF-4, HDF5 or .npy");
  BORA_FAIL("reading '", path, "': the first bytes", is_gzip ? " inside gzip" : "", " are ",
            shown(text),
            ", wanted those of NIfTI (.nii, .nii.gz, .hdr and .img), NetCDF-4, HDF5 or .npy");
}

}  // namespace bora::data
