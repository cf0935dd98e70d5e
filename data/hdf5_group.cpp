// SPDX-License-Identifier: Apache-2.0
#include <hdf5.h>

#include <algorithm>
#include <array>

#include "core/crash_note.hpp"
#include "core/error.hpp"
#include "data/hdf5.hpp"

namespace bora::data::hdf5 {

std::string Group::child_label(const std::string& path) const {
  return label_.back() == '/' ? label_ + path : label_ + "/" + path;
}

Group Group::wrap(Id id, const std::string& path) const {
  Group group(std::move(id), child_label(path));
  group.file_ = file_;
  return group;
}

bool Group::exists(const std::string& path) const {
  Lock lock;
  BORA_CHECK(!path.empty(), "hdf5: empty path below '", label_, "'");
  return with_context("looking for '" + path + "' in '" + label_ + "'", [&] {
    // H5Lexists wants every group above to exist.
    for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
      const std::string part = path.substr(0, end);
      if (part != "/" && BORA_HDF5(H5Lexists(id(), part.c_str(), H5P_DEFAULT)) == 0) return false;
      if (end == std::string::npos) break;
    }
    if (path == "/") return true;
    // A soft link may point to nothing, or to itself.
    const htri_t is_there = H5Oexists_by_name(id(), path.c_str(), H5P_DEFAULT);
    if (is_there >= 0) return is_there > 0;
    const std::string text = Status::text(is_there);
    BORA_CHECK(text.find("too many links") != text.npos, "HDF5: ", text);
    return false;
  });
}

namespace {
H5O_type_t kind_of(const Group& group, const std::string& path) {
  if (!group.exists(path)) return H5O_TYPE_UNKNOWN;
  return with_context("looking for '" + path + "' in '" + group.label() + "'", [&] {
    H5O_info_t info;
    BORA_HDF5(H5Oget_info_by_name2(group.id(), path.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT));
    return info.type;
  });
}

const char* text_of(H5O_type_t kind) {
  switch (kind) {
    case H5O_TYPE_GROUP:
      return "a group";
    case H5O_TYPE_DATASET:
      return "a data set";
    case H5O_TYPE_NAMED_DATATYPE:
      return "a named type";
    default:
      return "nothing";
  }
}

void check_kind(const Group& group, const std::string& path, H5O_type_t wanted) {
  const H5O_type_t found = kind_of(group, path);
  BORA_CHECK(found == wanted, "'", group.label(), "': wanted ", text_of(wanted), " '", path,
             "', found ", text_of(found),
             "; data sets here: ", detail::list_of(group.dataset_names()),
             "; groups here: ", detail::list_of(group.group_names()));
}

std::vector<std::string> names_of_kind(const Group& group, H5O_type_t wanted) {
  std::vector<std::string> out;
  for (const std::string& name : group.names())
    if (kind_of(group, name) == wanted) out.push_back(name);
  return out;
}

herr_t append_name(hid_t, const char* name, const H5L_info_t*, void* out) {
  static_cast<std::vector<std::string>*>(out)->emplace_back(name);
  return 0;
}
}  // namespace

bool Group::is_group(const std::string& path) const {
  Lock lock;
  return kind_of(*this, path) == H5O_TYPE_GROUP;
}

bool Group::is_same(const Group& other) const {
  Lock lock;
  return with_context("looking at '" + label_ + "'", [&] {
    H5O_info_t a, b;
    BORA_HDF5(H5Oget_info2(id(), &a, H5O_INFO_BASIC));
    BORA_HDF5(H5Oget_info2(other.id(), &b, H5O_INFO_BASIC));
    return a.fileno == b.fileno && a.addr == b.addr;
  });
}

bool Group::is_dataset(const std::string& path) const {
  Lock lock;
  return kind_of(*this, path) == H5O_TYPE_DATASET;
}

std::vector<std::string> Group::names() const {
  const CrashNote note(label_);
  Lock lock;
  std::vector<std::string> out;
  with_context("listing '" + label_ + "'", [&] {
    BORA_HDF5(H5Literate(id(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, &append_name, &out));
  });
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> Group::group_names() const {
  Lock lock;
  return names_of_kind(*this, H5O_TYPE_GROUP);
}

std::vector<std::string> Group::dataset_names() const {
  Lock lock;
  return names_of_kind(*this, H5O_TYPE_DATASET);
}

Group Group::open_group(const std::string& path) const {
  const CrashNote note(label_);
  Lock lock;
  check_kind(*this, path, H5O_TYPE_GROUP);
  return with_context("opening '" + child_label(path) + "'", [&] {
    return wrap(Id(BORA_HDF5(H5Gopen2(id(), path.c_str(), H5P_DEFAULT))), path);
  });
}

Dataset Group::open_dataset(const std::string& path) const {
  const CrashNote note(label_);
  Lock lock;
  check_kind(*this, path, H5O_TYPE_DATASET);
  return with_context(child_label(path), [&] {
    return Dataset(Id(BORA_HDF5(H5Dopen2(id(), path.c_str(), H5P_DEFAULT))), child_label(path));
  });
}

Group Group::create_group(const std::string& path) {
  Lock lock;
  return with_context("creating group '" + child_label(path) + "'", [&] {
    const Id list(BORA_HDF5(H5Pcreate(H5P_LINK_CREATE)));
    BORA_HDF5(H5Pset_create_intermediate_group(list.get(), 1));
    return wrap(Id(BORA_HDF5(H5Gcreate2(id(), path.c_str(), list.get(), H5P_DEFAULT, H5P_DEFAULT))),
                path);
  });
}

Dataset Group::create_dataset(const std::string& path, const Shape& shape, DType type,
                              const Storage& storage) {
  Lock lock;
  return create_of(path, shape, detail::memory_type(type), storage);
}

Dataset Group::create_dataset(const std::string& path, const Shape& shape,
                              const std::string& stored_type, const Storage& storage) {
  Lock lock;
  const std::pair<const char*, hid_t> integers[] = {
      {"i8", H5T_NATIVE_INT8},    {"u8", H5T_NATIVE_UINT8},  {"i16", H5T_NATIVE_INT16},
      {"u16", H5T_NATIVE_UINT16}, {"i32", H5T_NATIVE_INT32}, {"u32", H5T_NATIVE_UINT32},
      {"i64", H5T_NATIVE_INT64},  {"u64", H5T_NATIVE_UINT64}};
  for (const auto& [name, type] : integers)
    if (stored_type == name) return create_of(path, shape, Id(BORA_HDF5(H5Tcopy(type))), storage);
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64})
    if (stored_type == name_of(type))
      return create_of(path, shape, detail::memory_type(type), storage);
  BORA_FAIL("creating data set '", child_label(path), "': type '", stored_type,
            "', wanted i8 to u64, f16, bf16, f32 or f64");
}

Dataset Group::create_of(const std::string& path, const Shape& shape, const Id& element,
                         const Storage& storage) {
  return with_context("creating data set '" + child_label(path) + "'", [&] {
    std::array<hsize_t, Shape::kMaxRank> extents{}, chunk{};
    bool empty = false;
    for (int i = 0; i < shape.rank(); ++i) {
      extents[i] = static_cast<hsize_t>(shape[i]);
      empty = empty || shape[i] == 0;
    }
    const Id space(shape.rank() == 0
                       ? BORA_HDF5(H5Screate(H5S_SCALAR))
                       : BORA_HDF5(H5Screate_simple(shape.rank(), extents.data(), nullptr)));
    const Id list(BORA_HDF5(H5Pcreate(H5P_DATASET_CREATE)));
    const bool filtered = storage.deflate > 0 || storage.shuffle || storage.fletcher32;
    BORA_CHECK(storage.deflate >= 0 && storage.deflate <= 9, "deflate level ", storage.deflate,
               ", wanted 0 to 9");
    BORA_CHECK(storage.chunk.empty() || static_cast<int>(storage.chunk.size()) == shape.rank(),
               "a chunk of ", storage.chunk.size(), " axes for shape ", shape);
    // Scalars and empty arrays cannot be chunked, and have nothing to compress.
    if ((filtered || !storage.chunk.empty()) && shape.rank() > 0 && !empty) {
      for (int i = 0; i < shape.rank(); ++i) {
        const int64_t c = storage.chunk.empty() ? shape[i] : storage.chunk[i];
        BORA_CHECK(c > 0, "chunk extent ", c, " on axis ", i, ", wanted at least 1");
        chunk[i] = static_cast<hsize_t>(std::min(c, shape[i]));
      }
      BORA_HDF5(H5Pset_chunk(list.get(), shape.rank(), chunk.data()));
      if (storage.shuffle) BORA_HDF5(H5Pset_shuffle(list.get()));
      if (storage.deflate > 0)
        BORA_HDF5(H5Pset_deflate(list.get(), static_cast<unsigned>(storage.deflate)));
      if (storage.fletcher32) BORA_HDF5(H5Pset_fletcher32(list.get()));
    }
    // No time stamps: equal contents give equal bytes.
    BORA_HDF5(H5Pset_obj_track_times(list.get(), false));
    const Id links(BORA_HDF5(H5Pcreate(H5P_LINK_CREATE)));
    BORA_HDF5(H5Pset_create_intermediate_group(links.get(), 1));
    return Dataset(Id(BORA_HDF5(H5Dcreate2(id(), path.c_str(), element.get(), space.get(),
                                           links.get(), list.get(), H5P_DEFAULT))),
                   child_label(path));
  });
}

Dataset Group::write_dataset(const std::string& path, const Tensor& values,
                             const Storage& storage) {
  Lock lock;
  BORA_CHECK(values.defined(), "hdf5: write_dataset '", child_label(path), "': undefined tensor");
  Dataset dataset = create_dataset(path, values.shape(), values.dtype(), storage);
  dataset.write(values);
  return dataset;
}

}  // namespace bora::data::hdf5
