// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_layout.hpp"

#include <hdf5.h>

#include <filesystem>

#include "data/hdf5_filters.hpp"

namespace bora::data {

std::string stored_type_of(const hdf5::Dataset& dataset) {
  hdf5::Lock lock;
  const hdf5::TypeInfo info = dataset.type();
  const hdf5::Id type(BORA_HDF5(H5Dget_type(dataset.id())));
  const bool big = info.bytes > 1 && info.kind != hdf5::TypeInfo::Kind::other &&
                   H5Tget_order(type.get()) == H5T_ORDER_BE;
  return big ? info.name + ", big-endian" : info.name;
}

std::string codec_of(const hdf5::Dataset& dataset) {
  hdf5::Lock lock;
  const hdf5::Id list(BORA_HDF5(H5Dget_create_plist(dataset.id())));
  if (H5Pget_layout(list.get()) != H5D_CHUNKED) {
    H5Eclear2(H5E_DEFAULT);  // an external or virtual layout that this library does not know
    return "none";
  }
  std::string text;
  for (const hdf5::detail::ListedFilter& f : hdf5::detail::list_filters(list.get())) {
    const std::string part = f.id == H5Z_FILTER_DEFLATE   ? "deflate " + std::to_string(f.values[0])
                             : f.id == H5Z_FILTER_SHUFFLE ? "shuffle"
                             : f.id == H5Z_FILTER_FLETCHER32 ? "fletcher32"
                             : !f.name.empty()               ? f.name
                                                             : "filter " + std::to_string(f.id);
    // Compression first, as people say it.
    if (f.id == H5Z_FILTER_DEFLATE)
      text = text.empty() ? part : part + ", " + text;
    else
      text += (text.empty() ? "" : ", ") + part;
  }
  return text.empty() ? "none" : text;
}

void describe_storage(const hdf5::Dataset& dataset, const VolumeAxes& axes, VolumeInfo& info) {
  hdf5::Lock lock;
  const std::vector<int64_t> extents = dataset.extents();
  info.grid = grid_of_axes(axes, extents);
  info.channels = channels_of_axes(axes, extents);
  info.stored_type = stored_type_of(dataset);
  info.codec = codec_of(dataset);
  info.stored_bytes = dataset.stored_bytes();
  std::error_code ignored;
  info.file_bytes = static_cast<int64_t>(std::filesystem::file_size(info.source.path, ignored));
  const std::vector<int64_t> chunk = dataset.chunk();
  if (chunk.empty()) return;
  const Dims3 cells = grid_of_axes(axes, chunk);
  info.chunk = {cells.d, cells.h, cells.w};
}

}  // namespace bora::data
