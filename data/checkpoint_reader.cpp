// SPDX-License-Identifier: Apache-2.0
#include <hdf5.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <type_traits>

#include "data/checkpoint.hpp"
#include "data/checkpoint_format.hpp"
#include "data/hdf5.hpp"

namespace bora::data {

using hdf5::Dataset;
using hdf5::Id;
using hdf5::Lock;

namespace {

/// At most ten of the names, and how many more there are.
std::string list(const char* what, const std::vector<std::string>& names) {
  constexpr size_t kShown = 10;
  if (names.empty()) return "";
  std::string text = bora::detail::join("\n  ", what, " (", names.size(), "): ");
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text.append(i ? ", " : "").append(names[i]);
  if (names.size() > kShown) text += bora::detail::join(", and ", names.size() - kShown, " more");
  return text;
}

}  // namespace

struct CheckpointReader::Impl {
  std::string path;
  hdf5::File file;
  hdf5::Group group;
  detail::NamePrefix prefix;
  std::set<std::string> all, read;
  std::vector<std::string> missing, mismatching;

  /// The wanted entry, or nothing after a note on why not.
  std::optional<Dataset> find(const std::string& full, const char* kind) {
    if (all.count(full) == 0) {
      missing.push_back(full);
      return std::nullopt;
    }
    read.insert(full);
    Dataset dataset = group.open_dataset(full);
    const std::string found = dataset.attribute<std::string>("kind");
    if (found == kind) return dataset;
    mismatching.push_back(full + " is a " + found + " in the file, wanted a " + kind);
    return std::nullopt;
  }

  /// All elements as `type`, which must be the file's own type but for the byte order.
  void read_bytes(const Dataset& dataset, const Id& type, void* out, int64_t bytes) const {
    const Id stored(BORA_HDF5(H5Dget_type(dataset.id())));
    BORA_CHECK(BORA_HDF5(H5Tget_size(stored.get())) == H5Tget_size(type.get()), dataset.label(),
               " has elements of another size than its kind says");
    const Id space(BORA_HDF5(H5Dget_space(dataset.id())));
    const auto n = BORA_HDF5(H5Sget_simple_extent_npoints(space.get()));
    BORA_CHECK(n * static_cast<int64_t>(H5Tget_size(type.get())) == bytes, dataset.label(), " has ",
               n, " elements, more or fewer than its kind says");
    with_context("reading '" + dataset.label() + "'", [&] {
      if (bytes > 0)
        BORA_HDF5(H5Dread(dataset.id(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, out));
    });
    BORA_CHECK(checksum(out, bytes) == dataset.attribute<uint64_t>("checksum"), dataset.label(),
               " is corrupt: its checksum does not fit");
  }

  int64_t count(const Dataset& dataset) const {
    int64_t n = 1;
    for (const int64_t extent : dataset.extents()) n *= extent;
    // Before memory is taken for it.
    const int64_t bytes = std::max<int64_t>(dataset.type().bytes, 1);
    const auto file_bytes = static_cast<int64_t>(std::filesystem::file_size(path));
    BORA_CHECK(n <= file_bytes / bytes, dataset.label(), " has ", n, " elements of ", bytes,
               " bytes, more than the file can hold");
    return n;
  }

  template <class T>
  void read_value(const Dataset& dataset, T& out) const {
    if constexpr (std::is_same_v<T, std::string>) {
      std::vector<std::string> one;
      read_value(dataset, one);
      BORA_CHECK(one.size() == 1, dataset.label(), " has ", one.size(), " texts, wanted one");
      out = std::move(one[0]);
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      const Id type(BORA_HDF5(H5Dget_type(dataset.id())));
      BORA_CHECK(H5Tget_class(type.get()) == H5T_STRING && H5Tis_variable_str(type.get()) == 0,
                 dataset.label(), " is not text of fixed length");
      const size_t width = H5Tget_size(type.get());
      std::string padded(static_cast<size_t>(count(dataset)) * width, '\0');
      read_bytes(dataset, type, padded.data(), static_cast<int64_t>(padded.size()));
      out.clear();
      for (size_t at = 0; at < padded.size(); at += width)
        out.emplace_back(padded.substr(at, width).c_str());  // up to the padding
    } else if constexpr (std::is_same_v<T, bool>) {
      uint8_t byte = 0;
      read_bytes(dataset, Id(BORA_HDF5(H5Tcopy(H5T_NATIVE_UINT8))), &byte, 1);
      out = byte != 0;
    } else if constexpr (std::is_arithmetic_v<T>) {
      read_bytes(dataset, native<T>(), &out, sizeof out);
    } else {
      out.resize(static_cast<size_t>(count(dataset)));
      read_bytes(dataset, native<typename T::value_type>(), out.data(),
                 static_cast<int64_t>(out.size() * sizeof out[0]));
    }
  }
  template <class T>
  static Id native() {
    if constexpr (std::is_same_v<T, double>) return Id(BORA_HDF5(H5Tcopy(H5T_NATIVE_DOUBLE)));
    if constexpr (std::is_same_v<T, int64_t>) return Id(BORA_HDF5(H5Tcopy(H5T_NATIVE_INT64)));
    if constexpr (std::is_same_v<T, uint64_t>) return Id(BORA_HDF5(H5Tcopy(H5T_NATIVE_UINT64)));
  }
};

CheckpointReader::CheckpointReader(const std::string& path) : impl_(std::make_unique<Impl>()) {
  verify_checkpoint(path);  // before the library, which is not made for hostile bytes
  const Lock lock;
  impl_->path = path;
  impl_->file = hdf5::File::open(path);
  impl_->group = impl_->file.open_group(detail::kStateGroup);
  for (std::string& name : impl_->group.names()) impl_->all.insert(std::move(name));
}

CheckpointReader::~CheckpointReader() = default;

const std::string& CheckpointReader::path() const { return impl_->path; }

std::vector<std::string> CheckpointReader::names() const {
  return {impl_->all.begin(), impl_->all.end()};
}

bool CheckpointReader::has(std::string_view name) const {
  return impl_->all.count(std::string(name)) > 0;
}

std::string CheckpointReader::describe(std::string_view name) const {
  BORA_CHECK(has(name), "checkpoint '", impl_->path, "' has no entry '", name, "'");
  const Lock lock;
  const Dataset dataset = impl_->group.open_dataset(std::string(name));
  const std::string kind = dataset.attribute<std::string>("kind");
  if (kind != detail::kTensorKind) return kind;
  return bora::detail::join(dataset.shape(), " ", dataset.type().name);
}

template <class T>
T CheckpointReader::peek(std::string_view name) {
  BORA_CHECK(has(name), "checkpoint '", impl_->path, "' has no entry '", name, "'");
  const Lock lock;
  const Dataset dataset = impl_->group.open_dataset(std::string(name));
  const std::string kind = dataset.attribute<std::string>("kind");
  BORA_CHECK(kind == detail::kind_of<T>, "checkpoint '", impl_->path, "': '", name, "' is a ", kind,
             ", wanted a ", detail::kind_of<T>);
  T value{};
  impl_->read_value(dataset, value);
  return value;
}
template int64_t CheckpointReader::peek(std::string_view);
template uint64_t CheckpointReader::peek(std::string_view);
template double CheckpointReader::peek(std::string_view);
template bool CheckpointReader::peek(std::string_view);
template std::string CheckpointReader::peek(std::string_view);
template std::vector<double> CheckpointReader::peek(std::string_view);
template std::vector<int64_t> CheckpointReader::peek(std::string_view);
template std::vector<std::string> CheckpointReader::peek(std::string_view);

void CheckpointReader::finish(Unread unread) {
  std::vector<std::string> unexpected;
  if (unread == Unread::refuse)
    std::set_difference(impl_->all.begin(), impl_->all.end(), impl_->read.begin(),
                        impl_->read.end(), std::back_inserter(unexpected));
  const std::string faults = list("missing in the file", impl_->missing) +
                             list("unexpected in the file", unexpected) +
                             list("not fitting", impl_->mismatching);
  BORA_CHECK(faults.empty(), "checkpoint '", impl_->path,
             "' is of another model or configuration:", faults);
  BORA_CHECK(!impl_->read.empty(), "checkpoint '", impl_->path, "': nothing was loaded from it");
}

void CheckpointReader::tensor(std::string_view name, Tensor& value, std::string_view axes) {
  const std::string full = impl_->prefix.full(name);
  BORA_CHECK(value.defined(), "checkpoint: tensor '", full, "' to be loaded is undefined");
  const Lock lock;
  const auto dataset = impl_->find(full, detail::kTensorKind);
  if (!dataset) return;
  const Shape shape = dataset->shape();
  const std::string type = dataset->type().name;
  if (!(shape == value.shape()) || type != name_of(value.dtype())) {
    impl_->mismatching.push_back(bora::detail::join(full, " is ", shape, " ", type,
                                                    " in the file, wanted ", value.shape(), " ",
                                                    value.dtype()));
    return;
  }
  const std::string stored =
      dataset->has_attribute("axes") ? dataset->attribute<std::string>("axes") : std::string();
  if (stored != axes) {
    impl_->mismatching.push_back(
        bora::detail::join(full, " has the axes '", stored, "' in the file, wanted '", axes, "'"));
    return;
  }
  Tensor host = value.device() == cpu() ? value : Tensor::empty(shape, value.dtype());
  impl_->read_bytes(*dataset, hdf5::detail::memory_type(value.dtype()), host.raw(), host.bytes());
  if (value.device() != cpu()) value.copy_from(host);
}

template <class T>
void CheckpointReader::load(std::string_view name, T& value) {
  const Lock lock;
  const auto dataset = impl_->find(impl_->prefix.full(name), detail::kind_of<T>);
  if (dataset) impl_->read_value(*dataset, value);
}

void CheckpointReader::value(std::string_view name, int64_t& value) { load(name, value); }
void CheckpointReader::value(std::string_view name, uint64_t& value) { load(name, value); }
void CheckpointReader::value(std::string_view name, double& value) { load(name, value); }
void CheckpointReader::value(std::string_view name, bool& value) { load(name, value); }
void CheckpointReader::value(std::string_view name, std::string& value) { load(name, value); }
void CheckpointReader::value(std::string_view name, std::vector<double>& value) {
  load(name, value);
}
void CheckpointReader::value(std::string_view name, std::vector<int64_t>& value) {
  load(name, value);
}
void CheckpointReader::value(std::string_view name, std::vector<std::string>& value) {
  load(name, value);
}
bool CheckpointReader::has_entry(std::string_view name) const {
  return has(impl_->prefix.full(name));
}
void CheckpointReader::enter(std::string_view group) { impl_->prefix.enter(group); }
void CheckpointReader::leave() { impl_->prefix.leave(); }

}  // namespace bora::data
