// SPDX-License-Identifier: Apache-2.0
#include <hdf5.h>

#include <algorithm>
#include <set>

#include "core/backend.hpp"
#include "core/build_info.hpp"
#include "core/pinned.hpp"
#include "data/atomic_file.hpp"
#include "data/checkpoint.hpp"
#include "data/checkpoint_format.hpp"
#include "data/hdf5.hpp"

namespace bora::data {

using hdf5::Id;
using hdf5::Lock;

namespace {

void set_attribute(hid_t object, const char* name, hid_t type, const void* value) {
  const Id space(BORA_HDF5(H5Screate(H5S_SCALAR)));
  const Id attribute(
      BORA_HDF5(H5Acreate2(object, name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT)));
  BORA_HDF5(H5Awrite(attribute.get(), type, value));
}

Id text_type(size_t bytes) {
  Id type(BORA_HDF5(H5Tcopy(H5T_C_S1)));
  BORA_HDF5(H5Tset_size(type.get(), std::max<size_t>(bytes, 1)));
  BORA_HDF5(H5Tset_strpad(type.get(), H5T_STR_NULLPAD));
  BORA_HDF5(H5Tset_cset(type.get(), H5T_CSET_UTF8));
  return type;
}

void set_attribute(hid_t object, const char* name, std::string_view value) {
  std::string padded(value);
  padded.resize(std::max<size_t>(padded.size(), 1));
  set_attribute(object, name, text_type(value.size()).get(), padded.data());
}

}  // namespace

// The file is built by HDF5 in memory and written by AtomicFile, since a write that fails inside
// the library (disk full) leaves it with a file that it can neither write nor close.
struct CheckpointWriter::Impl {
  Id file, group, no_times;
  detail::NamePrefix prefix;
  std::set<std::string> names;
  /// Tensors on their way from a device.
  struct Copy {
    std::string name, axes;
    Tensor host;
    Event arrived;
  };
  std::vector<Copy> copies;

  /// One data set of `extents` elements (none: one element) of `type`, `bytes` in all.
  void write(std::string_view name, const char* kind, const std::vector<hsize_t>& extents,
             const Id& type, const void* data, int64_t bytes, std::string_view axes = {}) {
    const std::string full = prefix.full(name);
    // HDF5 reads '/' as a step into a group, and "." as the group itself.
    BORA_CHECK(!name.empty() && full.find('/') == std::string::npos &&
                   full.find('\0') == std::string::npos && full != ".",
               "checkpoint: '", full, "' cannot be the name of an entry");
    BORA_CHECK(names.insert(full).second, "checkpoint: two entries are called '", full, "'");
    const Lock lock;
    const int rank = static_cast<int>(extents.size());
    const Id space(rank == 0 ? BORA_HDF5(H5Screate(H5S_SCALAR))
                             : BORA_HDF5(H5Screate_simple(rank, extents.data(), nullptr)));
    const Id dataset(BORA_HDF5(H5Dcreate2(group.get(), full.c_str(), type.get(), space.get(),
                                          H5P_DEFAULT, no_times.get(), H5P_DEFAULT)));
    if (bytes > 0)
      BORA_HDF5(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, data));
    set_attribute(dataset.get(), "kind", kind);
    const uint64_t sum = checksum(data, bytes);
    set_attribute(dataset.get(), "checksum", H5T_NATIVE_UINT64, &sum);
    if (!axes.empty()) set_attribute(dataset.get(), "axes", axes);
  }

  void write_tensor(std::string_view name, const Tensor& host, std::string_view axes) {
    std::vector<hsize_t> extents;
    for (int i = 0; i < host.rank(); ++i) extents.push_back(static_cast<hsize_t>(host.size(i)));
    write(name, detail::kTensorKind, extents, hdf5::detail::memory_type(host.dtype()), host.raw(),
          host.bytes(), axes);
  }
  /// All of one stream's copies are done when the last one is: the host waits once.
  void write_copies() {
    for (auto copy = copies.rbegin(); copy != copies.rend(); ++copy)
      if (!copy->arrived.done()) copy->arrived.synchronize();
    for (const Copy& copy : copies) write_tensor(copy.name, copy.host, copy.axes);
    copies.clear();
  }

  template <class T>
  void write_value(std::string_view name, hid_t type, const T& value) {
    const Lock lock;
    write(name, detail::kind_of<T>, {}, Id(BORA_HDF5(H5Tcopy(type))), &value, sizeof value);
  }
  template <class T>
  void write_list(std::string_view name, hid_t type, const std::vector<T>& values) {
    const Lock lock;
    write(name, detail::kind_of<std::vector<T>>, {values.size()}, Id(BORA_HDF5(H5Tcopy(type))),
          values.data(), static_cast<int64_t>(values.size() * sizeof(T)));
  }
  /// Text in elements of equal width, padded with zeros; which text must therefore not contain.
  void write_text(std::string_view name, const char* kind, const std::vector<hsize_t>& extents,
                  const std::string* values, size_t n) {
    const Lock lock;
    size_t width = 1;
    for (size_t i = 0; i < n; ++i) {
      BORA_CHECK(values[i].find('\0') == std::string::npos, "checkpoint: the text '",
                 prefix.full(name), "' contains a zero byte");
      width = std::max(width, values[i].size());
    }
    std::string padded;
    for (size_t i = 0; i < n; ++i) padded.append(values[i]).resize((i + 1) * width);
    write(name, kind, extents, text_type(width), padded.data(),
          static_cast<int64_t>(padded.size()));
  }
};

CheckpointWriter::CheckpointWriter() : impl_(std::make_unique<Impl>()) {
  const Lock lock;
  const Id access(BORA_HDF5(H5Pcreate(H5P_FILE_ACCESS)));
  constexpr size_t kGrowBytes = size_t{1} << 20;
  BORA_HDF5(H5Pset_fapl_core(access.get(), kGrowBytes, /*backing_store=*/false));
  const Id creation(BORA_HDF5(H5Pcreate(H5P_FILE_CREATE)));
  BORA_HDF5(H5Pset_userblock(creation.get(), detail::kHeaderBytes));
  impl_->file = Id(BORA_HDF5(H5Fcreate("checkpoint", H5F_ACC_TRUNC, creation.get(), access.get())));
  impl_->group = Id(BORA_HDF5(
      H5Gcreate2(impl_->file.get(), detail::kStateGroup, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)));
  // Without times of creation, equal states give equal files.
  impl_->no_times = Id(BORA_HDF5(H5Pcreate(H5P_DATASET_CREATE)));
  BORA_HDF5(H5Pset_obj_track_times(impl_->no_times.get(), false));
}

CheckpointWriter::~CheckpointWriter() = default;

void CheckpointWriter::commit(const std::string& path, const std::string& keep_as) {
  BORA_CHECK(impl_->file, "checkpoint: second commit of one CheckpointWriter, to '", path, "'");
  impl_->write_copies();
  std::string image(static_cast<size_t>(detail::kHeaderBytes), '\0');
  {
    const Lock lock;
    set_attribute(impl_->group.get(), "created_by", build_info_text());
    const uint64_t n_entries = impl_->names.size();
    set_attribute(impl_->group.get(), "n_entries", H5T_NATIVE_UINT64, &n_entries);
    BORA_HDF5(H5Fflush(impl_->file.get(), H5F_SCOPE_LOCAL));
    const auto bytes = BORA_HDF5(H5Fget_file_image(impl_->file.get(), nullptr, 0));
    // The library leaves the user block out of the image; addresses inside count from its end.
    image.resize(image.size() + static_cast<size_t>(bytes));
    BORA_HDF5(H5Fget_file_image(impl_->file.get(), image.data() + detail::kHeaderBytes,
                                static_cast<size_t>(bytes)));
    BORA_CHECK(image.compare(detail::kHeaderBytes, 4, "\x89HDF") == 0, "checkpoint: HDF5 ",
               hdf5::library_version(), " lays out file images otherwise");
    impl_->no_times.reset();
    impl_->group.reset();
    impl_->file.reset();
  }
  const int64_t bytes = static_cast<int64_t>(image.size());
  const uint64_t sum = checksum(image.data() + detail::kHeaderBytes, bytes - detail::kHeaderBytes);
  image.replace(0, detail::kHeaderBytes, detail::checkpoint_header(bytes, sum));
  with_context("saving checkpoint '" + path + "'", [&] {
    AtomicFile file(path);
    file.write(image);
    file.commit(keep_as);
  });
}

void CheckpointWriter::tensor(std::string_view name, Tensor& value, std::string_view axes) {
  BORA_CHECK(value.defined(), "checkpoint: tensor '", impl_->prefix.full(name), "' is undefined");
  if (value.device() == cpu()) return impl_->write_tensor(name, value, axes);
  Tensor host = pinned_pool(value.device()).tensor(value.shape(), value.dtype());
  const Stream stream = value.stream();
  if (value.numel() > 0)
    backend(value.device().type)
        .copy(stream, host.raw(), cpu(), value.raw(), value.device(), value.bytes());
  const Event copied = stream.record();
  // A writer that goes without commit() gives the memory back with the copy under way.
  pinned_pool(value.device()).guard(host, copied);
  impl_->copies.push_back({impl_->prefix.full(name), std::string(axes), host, copied});
}

void CheckpointWriter::value(std::string_view name, int64_t& value) {
  impl_->write_value(name, H5T_NATIVE_INT64, value);
}
void CheckpointWriter::value(std::string_view name, uint64_t& value) {
  impl_->write_value(name, H5T_NATIVE_UINT64, value);
}
void CheckpointWriter::value(std::string_view name, double& value) {
  impl_->write_value(name, H5T_NATIVE_DOUBLE, value);
}
void CheckpointWriter::value(std::string_view name, bool& value) {
  static_assert(sizeof(bool) == 1);
  impl_->write_value(name, H5T_NATIVE_UINT8, value);
}
void CheckpointWriter::value(std::string_view name, std::string& value) {
  impl_->write_text(name, detail::kind_of<std::string>, {}, &value, 1);
}
void CheckpointWriter::value(std::string_view name, std::vector<double>& value) {
  impl_->write_list(name, H5T_NATIVE_DOUBLE, value);
}
void CheckpointWriter::value(std::string_view name, std::vector<int64_t>& value) {
  impl_->write_list(name, H5T_NATIVE_INT64, value);
}
void CheckpointWriter::value(std::string_view name, std::vector<std::string>& value) {
  impl_->write_text(name, detail::kind_of<std::vector<std::string>>, {value.size()}, value.data(),
                    value.size());
}
void CheckpointWriter::enter(std::string_view group) { impl_->prefix.enter(group); }
void CheckpointWriter::leave() { impl_->prefix.leave(); }

}  // namespace bora::data
