// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_elsewhere.hpp"

#include <hdf5.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace bora::data::hdf5::detail {
namespace {

namespace fs = std::filesystem;

/// Text of the library, by a function that fills a buffer of some size.
template <class Fill>
std::string text_by(const Fill& fill) {
  const ssize_t length = BORA_HDF5(fill(nullptr, size_t{0}));
  std::string text(static_cast<size_t>(length) + 1, '\0');
  BORA_HDF5(fill(text.data(), text.size()));
  text.resize(static_cast<size_t>(length));
  return text;
}

/// The first of these that is a plain file; throws Error if none is.
fs::path found_at(const std::vector<fs::path>& places, const std::string& name) {
  for (const fs::path& place : places) {
    std::error_code ignored;
    if (fs::is_regular_file(place, ignored)) return place;
  }
  BORA_FAIL("its values lie in the file '", name,
            "', which is not there; HDF5 would give fill values in its place");
}

/// Extents of a space; empty unless it has fixed ones.
std::vector<int64_t> extents_of(int64_t space) {
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank <= 0) return {};
  std::vector<hsize_t> now(static_cast<size_t>(rank));
  BORA_HDF5(H5Sget_simple_extent_dims(space, now.data(), nullptr));
  return {now.begin(), now.end()};
}

/// A source of a virtual data set must hold what was mapped from it.
void check_source(const Dataset& dataset, int64_t list, size_t i) {
  const std::string name =
      text_by([&](char* to, size_t bytes) { return H5Pget_virtual_filename(list, i, to, bytes); });
  const std::string set =
      text_by([&](char* to, size_t bytes) { return H5Pget_virtual_dsetname(list, i, to, bytes); });
  BORA_CHECK(name.find("%b") == name.npos && set.find("%b") == set.npos,
             "a virtual data set of numbered sources ('", name, "', '", set,
             "'): whether one is missing cannot be known; write a data set of its own, with "
             "h5repack -l CONTI");
  if (name == ".") return;  // the own file, which the reader has open
  const std::string own =
      text_by([&](char* to, size_t bytes) { return H5Fget_name(dataset.id(), to, bytes); });
  const fs::path beside = fs::path(own).parent_path() / name;
  const File source = File::open(found_at({beside, name}, name).string());
  const Dataset mapped = source.open_dataset(set);
  const Id space(BORA_HDF5(H5Pget_virtual_srcspace(list, i)));
  const std::vector<int64_t> wanted = extents_of(space.get()), found = mapped.extents();
  BORA_CHECK(wanted.empty() || wanted.size() == found.size(), "its source '", mapped.label(),
             "' has ", found.size(), " axes, wanted ", wanted.size());
  for (size_t k = 0; k < wanted.size(); ++k)
    BORA_CHECK(found[k] >= wanted[k], "its source '", mapped.label(), "' has ", found[k],
               " elements on axis ", k, ", wanted ", wanted[k],
               "; HDF5 would give fill values in their place");
}

/// A file of external storage must be as long as what lies in it.
void check_external(int64_t list, unsigned i) {
  std::array<char, 4096> text{};
  off_t offset = 0;
  hsize_t bytes = 0;
  BORA_HDF5(H5Pget_external(list, i, text.size() - 1, text.data(), &offset, &bytes));
  const std::string name = text.data();
  // As the library finds it: from the folder that the program runs in, or that of this variable.
  const char* prefix = std::getenv("HDF5_EXTFILE_PREFIX");
  const fs::path place =
      prefix != nullptr && *prefix != '\0' ? fs::path(prefix) / name : fs::path(name);
  const fs::path there = found_at({place}, name);
  std::error_code failure;
  const uintmax_t size = fs::file_size(there, failure);
  if (bytes == H5F_UNLIMITED || failure) return;
  BORA_CHECK(size >= static_cast<uintmax_t>(offset) + bytes, "its values lie in the file '", name,
             "', which has ", size, " bytes, wanted ", static_cast<uintmax_t>(offset) + bytes,
             "; HDF5 would give zeros in their place");
}

}  // namespace

void check_elsewhere(const Dataset& dataset) {
  const Id list(BORA_HDF5(H5Dget_create_plist(dataset.id())));
  if (BORA_HDF5(H5Pget_layout(list.get())) == H5D_VIRTUAL) {
    size_t n = 0;
    BORA_HDF5(H5Pget_virtual_count(list.get(), &n));
    for (size_t i = 0; i < n; ++i) check_source(dataset, list.get(), i);
    return;
  }
  const int n = BORA_HDF5(H5Pget_external_count(list.get()));
  for (int i = 0; i < n; ++i) check_external(list.get(), static_cast<unsigned>(i));
}

}  // namespace bora::data::hdf5::detail
