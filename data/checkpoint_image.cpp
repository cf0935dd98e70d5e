// SPDX-License-Identifier: Apache-2.0
#include "data/checkpoint_image.hpp"

#include <hdf5.h>

#include <algorithm>

#include "core/build_info.hpp"
#include "data/checkpoint.hpp"
#include "data/checkpoint_format.hpp"

namespace bora::data::detail {

using hdf5::Id;
using hdf5::Lock;

namespace {

// So much is handed to the system at a time: progress can be seen, and a failing disk is noticed.
constexpr int64_t kPieceBytes = int64_t{4} << 20;

void set_attribute(hid_t object, const char* name, hid_t type, const void* value) {
  const Id space(BORA_HDF5(H5Screate(H5S_SCALAR)));
  const Id attribute(
      BORA_HDF5(H5Acreate2(object, name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT)));
  BORA_HDF5(H5Awrite(attribute.get(), type, value));
}

Id text_type(int64_t bytes) {
  Id type(BORA_HDF5(H5Tcopy(H5T_C_S1)));
  BORA_HDF5(H5Tset_size(type.get(), static_cast<size_t>(std::max<int64_t>(bytes, 1))));
  BORA_HDF5(H5Tset_strpad(type.get(), H5T_STR_NULLPAD));
  BORA_HDF5(H5Tset_cset(type.get(), H5T_CSET_UTF8));
  return type;
}

void set_attribute(hid_t object, const char* name, std::string_view value) {
  std::string padded(value);
  padded.resize(std::max<size_t>(padded.size(), 1));
  set_attribute(object, name, text_type(static_cast<int64_t>(value.size())).get(), padded.data());
}

Id type_of(const CheckpointEntry& entry) {
  switch (entry.element) {
    case CheckpointEntry::Element::tensor:
      return hdf5::detail::memory_type(entry.type);
    case CheckpointEntry::Element::i64:
      return Id(BORA_HDF5(H5Tcopy(H5T_NATIVE_INT64)));
    case CheckpointEntry::Element::u64:
      return Id(BORA_HDF5(H5Tcopy(H5T_NATIVE_UINT64)));
    case CheckpointEntry::Element::f64:
      return Id(BORA_HDF5(H5Tcopy(H5T_NATIVE_DOUBLE)));
    case CheckpointEntry::Element::boolean:
      return Id(BORA_HDF5(H5Tcopy(H5T_NATIVE_UINT8)));
    case CheckpointEntry::Element::text:
      return text_type(entry.width);
  }
  BORA_FAIL("checkpoint: '", entry.name, "' has elements of an unknown kind");
}

}  // namespace

void CheckpointImage::add(const CheckpointEntry& entry, int64_t group) {
  const uint64_t sum = checksum(entry.data, entry.bytes);  // the long part, without the lock
  const Lock lock;
  const std::vector<hsize_t> extents(entry.extents.begin(), entry.extents.end());
  const Id type = type_of(entry);
  const Id space(extents.empty() ? BORA_HDF5(H5Screate(H5S_SCALAR))
                                 : BORA_HDF5(H5Screate_simple(static_cast<int>(extents.size()),
                                                              extents.data(), nullptr)));
  const Id dataset(BORA_HDF5(H5Dcreate2(group, entry.name.c_str(), type.get(), space.get(),
                                        H5P_DEFAULT, skeleton_.layout(), H5P_DEFAULT)));
  set_attribute(dataset.get(), "kind", entry.kind);
  set_attribute(dataset.get(), "checksum", H5T_NATIVE_UINT64, &sum);
  if (!entry.axes.empty()) set_attribute(dataset.get(), "axes", entry.axes);
  if (entry.bytes == 0) return;
  const haddr_t at = H5Dget_offset(dataset.get());
  BORA_CHECK(at != HADDR_UNDEF &&
                 static_cast<int64_t>(BORA_HDF5(H5Dget_storage_size(dataset.get()))) == entry.bytes,
             "checkpoint: HDF5 ", hdf5::library_version(), " gives '", entry.name,
             "' no place of its ", entry.bytes, " bytes");
  parts_.push_back({static_cast<int64_t>(at), entry.data, entry.bytes, sum});
}

template <class Visit>
void CheckpointImage::go_through(Visit&& visit) const {
  int64_t at = kHeaderBytes;
  for (const Part& part : parts_) {
    visit(at, part.at - at, nullptr);
    visit(part.at, part.bytes, &part);
    at = part.at + part.bytes;
  }
  visit(at, bytes_ - at, nullptr);
}

CheckpointImage::CheckpointImage(const std::vector<CheckpointEntry>& entries)
    : skeleton_(kHeaderBytes) {
  Id group;
  {
    const Lock lock;
    group = Id(BORA_HDF5(
        H5Gcreate2(skeleton_.file(), kStateGroup, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)));
  }
  for (const CheckpointEntry& entry : entries) add(entry, group.get());
  {
    const Lock lock;
    set_attribute(group.get(), "created_by", build_info_text());
    const uint64_t n_entries = entries.size();
    set_attribute(group.get(), "n_entries", H5T_NATIVE_UINT64, &n_entries);
    group.reset();
    skeleton_.close();
  }
  std::sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) { return a.at < b.at; });
  bytes_ = skeleton_.bytes();
  int64_t end = kHeaderBytes;
  for (const Part& part : parts_) {
    BORA_CHECK(part.at >= end, "checkpoint: HDF5 ", hdf5::library_version(),
               " places contents over each other at ", part.at);
    end = part.at + part.bytes;
  }
  BORA_CHECK(end <= bytes_, "checkpoint: contents end at ", end, " of ", bytes_, " bytes");
  uint64_t sum = kChecksumStart;
  std::string between;
  go_through([&](int64_t at, int64_t n, const Part* part) {
    if (part != nullptr) {
      sum = joined_checksum(sum, part->sum, n);
      return;
    }
    between.resize(static_cast<size_t>(n));
    skeleton_.read(at, between.data(), n);
    sum = checksum(between.data(), n, sum);
  });
  header_ = checkpoint_header(bytes_, sum);
}

void CheckpointImage::write(AtomicFile& file, std::atomic<int64_t>& progress) const {
  const auto put = [&](const void* data, int64_t bytes) {
    const char* from = static_cast<const char*>(data);
    for (int64_t done = 0; done < bytes; done += kPieceBytes) {
      const int64_t n = std::min(kPieceBytes, bytes - done);
      file.write(from + done, n);
      progress += n;
    }
  };
  put(header_.data(), kHeaderBytes);
  std::string between;
  go_through([&](int64_t at, int64_t n, const Part* part) {
    if (part != nullptr) return put(part->data, n);
    between.resize(static_cast<size_t>(n));
    skeleton_.read(at, between.data(), n);
    put(between.data(), n);
  });
}

}  // namespace bora::data::detail
