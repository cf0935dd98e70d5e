// SPDX-License-Identifier: Apache-2.0
#include <hdf5.h>

#include <algorithm>
#include <atomic>
#include <optional>

#include "core/crash_note.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "data/hdf5.hpp"
#include "data/hdf5_check.hpp"
#include "data/hdf5_chunks.hpp"
#include "data/hdf5_elsewhere.hpp"
#include "data/hdf5_filters.hpp"
#include "data/hdf5_lock.hpp"
#include "data/hdf5_reader_driver.hpp"

namespace bora::data::hdf5 {
namespace {

std::atomic<int64_t>& read_counter() {
  static std::atomic<int64_t> counter{0};
  return counter;
}

bool is_integer(DType type) { return !is_float(type); }

/// An integer that does not fit, or a float without an integer, stops the read: HDF5 would clip.
H5T_conv_ret_t refuse_range(H5T_conv_except_t kind, hid_t, hid_t, void*, void*, void* found) {
  if (kind == H5T_CONV_EXCEPT_PRECISION || kind == H5T_CONV_EXCEPT_TRUNCATE)
    return H5T_CONV_UNHANDLED;
  *static_cast<bool*>(found) = true;
  return H5T_CONV_ABORT;
}

/// Throws unless every value, cut to an integer, is one of `type`.
void check_range(const Tensor& values, DType type, const std::string& stored) {
  const double* v = values.data<double>();
  // The first doubles that are too big or too small: -1 and 256; -2^31 - 1 and 2^31; for i64 the
  // double below -2^63 and 2^63.
  const double low = type == DType::u8    ? -1.0
                     : type == DType::i32 ? -2147483649.0
                                          : -0x1.0000000000001p63;
  const double high = type == DType::u8 ? 256.0 : type == DType::i32 ? 2147483648.0 : 0x1p63;
  for (int64_t i = 0; i < values.numel(); ++i)
    BORA_CHECK(v[i] > low && v[i] < high, "a value of type ", stored, " (", v[i],
               ") is out of the range of ", type);
}

std::string text_of(std::span<const int64_t> values) {
  std::string text = "(";
  for (size_t i = 0; i < values.size(); ++i) text += bora::detail::join(i ? ", " : "", values[i]);
  return text + ")";
}

/// The selection in the file and the space in memory of a block, checked against the extents.
struct Selection {
  Id file, memory;
  int64_t n = 1;
  std::vector<int64_t> extents;
};
Selection select(const Dataset& dataset, std::span<const int64_t> begin,
                 std::span<const int64_t> count) {
  const std::vector<int64_t> extents = dataset.extents();
  BORA_CHECK(begin.size() == extents.size() && count.size() == extents.size(), "block from ",
             text_of(begin), " of ", text_of(count), " does not fit the rank of extents ",
             text_of(extents));
  std::vector<hsize_t> b, c;
  Selection s;
  for (size_t i = 0; i < extents.size(); ++i) {
    BORA_CHECK(begin[i] >= 0 && count[i] >= 0 && begin[i] <= extents[i] - count[i], "block from ",
               text_of(begin), " of ", text_of(count), " is outside of extents ", text_of(extents));
    b.push_back(static_cast<hsize_t>(begin[i]));
    c.push_back(static_cast<hsize_t>(count[i]));
    BORA_CHECK(!__builtin_mul_overflow(s.n, count[i], &s.n), "block of ", text_of(count),
               ": more elements than can be counted");
  }
  s.extents = extents;
  s.file = Id(BORA_HDF5(H5Dget_space(dataset.id())));
  if (extents.empty()) {
    s.memory = Id(BORA_HDF5(H5Screate(H5S_SCALAR)));
    return s;
  }
  s.memory = Id(BORA_HDF5(H5Screate_simple(static_cast<int>(c.size()), c.data(), nullptr)));
  if (s.n == 0) {
    BORA_HDF5(H5Sselect_none(s.file.get()));
    BORA_HDF5(H5Sselect_none(s.memory.get()));
  } else {
    BORA_HDF5(
        H5Sselect_hyperslab(s.file.get(), H5S_SELECT_SET, b.data(), nullptr, c.data(), nullptr));
  }
  return s;
}

/// False if a value is out of the range of an integer type.
bool read_by_library(int64_t dataset, const Selection& selection, Tensor& out) {
  const Id memory = detail::memory_type(out.dtype());
  const Id list(BORA_HDF5(H5Pcreate(H5P_DATASET_XFER)));
  bool out_of_range = false;
  if (is_integer(out.dtype()))
    BORA_HDF5(H5Pset_type_conv_cb(list.get(), &refuse_range, &out_of_range));
  const herr_t status = H5Dread(dataset, memory.get(), selection.memory.get(), selection.file.get(),
                                list.get(), out.raw());
  if (out_of_range)
    H5Eclear2(H5E_DEFAULT);
  else
    BORA_HDF5(status);
  return !out_of_range;
}

Shape shape_of(std::span<const int64_t> extents, const std::string& label) {
  BORA_CHECK(extents.size() <= static_cast<size_t>(Shape::kMaxRank), "'", label,
             "': ", extents.size(), " axes, at most ", Shape::kMaxRank, " are supported");
  Shape shape;
  for (int64_t e : extents) shape = shape.append(e);
  return shape;
}

/// Refuses a block that a file cannot hold, before memory is taken for it: damaged extents are
/// often huge.  Compression gives 1032 bytes a byte at most; what was never written costs none at
/// all, so up to a GiB nothing is said.
void check_size(const Dataset& dataset, int64_t n, int64_t bytes) {
  constexpr int64_t kSmall = int64_t{1} << 30, kMostTimes = 1032;
  if (n <= kSmall / bytes) return;
  const Id file(BORA_HDF5(H5Iget_file_id(dataset.id())));
  hsize_t file_bytes = 0;
  BORA_HDF5(H5Fget_filesize(file.get(), &file_bytes));
  BORA_CHECK(n / kMostTimes <= static_cast<int64_t>(file_bytes) / bytes, n, " elements of ", bytes,
             " bytes cannot be in a file of ", file_bytes, " bytes: it is damaged");
}

}  // namespace

std::vector<int64_t> Dataset::extents() const {
  Lock lock;
  const Id space(BORA_HDF5(H5Dget_space(id())));
  BORA_CHECK(H5Sget_simple_extent_type(space.get()) != H5S_NULL, "'", label_,
             "' has no elements (null space)");
  const int rank = BORA_HDF5(H5Sget_simple_extent_ndims(space.get()));
  std::vector<hsize_t> extents(static_cast<size_t>(rank)), most(extents.size());
  if (rank > 0) BORA_HDF5(H5Sget_simple_extent_dims(space.get(), extents.data(), most.data()));
  // The library believes it, and reads behind its buffers.
  for (size_t i = 0; i < extents.size(); ++i)
    BORA_CHECK(extents[i] <= most[i], "'", label_, "' has an axis of ", extents[i],
               " elements that may have ", most[i], " at most: the file is damaged");
  // Beyond what a file can hold, sums of bytes would overflow on the way.
  constexpr hsize_t kMost = hsize_t{1} << 56;
  hsize_t n = 1;
  for (const hsize_t extent : extents) {
    BORA_CHECK(extent <= kMost && n <= kMost / std::max<hsize_t>(extent, 1), "'", label_,
               "' has an axis of ", extent, " elements: the file is damaged");
    n *= std::max<hsize_t>(extent, 1);
  }
  return {extents.begin(), extents.end()};
}

Shape Dataset::shape() const { return shape_of(extents(), label_); }

TypeInfo Dataset::type() const {
  Lock lock;
  const Id type(BORA_HDF5(H5Dget_type(id())));
  return detail::describe_type(type.get());
}

std::vector<int64_t> Dataset::chunk() const {
  Lock lock;
  const Id list(BORA_HDF5(H5Dget_create_plist(id())));
  if (BORA_HDF5(H5Pget_layout(list.get())) != H5D_CHUNKED) return {};
  std::vector<hsize_t> chunk(extents().size());
  BORA_HDF5(H5Pget_chunk(list.get(), static_cast<int>(chunk.size()), chunk.data()));
  return {chunk.begin(), chunk.end()};
}

Storage Dataset::storage() const {
  Lock lock;
  Storage storage;
  storage.chunk = chunk();
  if (storage.chunk.empty()) return storage;
  const Id list(BORA_HDF5(H5Dget_create_plist(id())));
  for (const detail::ListedFilter& f : detail::list_filters(list.get())) {
    if (f.id == H5Z_FILTER_DEFLATE) storage.deflate = static_cast<int>(f.values[0]);
    if (f.id == H5Z_FILTER_SHUFFLE) storage.shuffle = true;
    if (f.id == H5Z_FILTER_FLETCHER32) storage.fletcher32 = true;
  }
  return storage;
}

int64_t Dataset::stored_bytes() const {
  Lock lock;
  return static_cast<int64_t>(H5Dget_storage_size(id()));
}

Tensor Dataset::read() const {
  return with_context("reading '" + label_ + "'", [&] { return read(type().dtype()); });
}

Tensor Dataset::read(DType type) const {
  const std::vector<int64_t> count = extents();
  const std::vector<int64_t> begin(count.size(), 0);
  return read(begin, count, type);
}

Tensor Dataset::read(std::span<const int64_t> begin, std::span<const int64_t> count,
                     DType type) const {
  const CrashNote note(label_);
  Lock lock;
  detail::note_holder(label_);
  return with_context("reading '" + label_ + "'", [&] {
    const TypeInfo stored = this->type();
    const DType nearest = stored.dtype();  // refuses what is not a number
    detail::check_filters(*this);
    detail::check_compact(*this);
    detail::check_elsewhere(*this);
    const Selection selection = select(*this, begin, count);
    const Shape shape = shape_of(count, label_);
    // To the 16-bit types through ours: rounding to nearest even is not promised by the library.
    const bool small = (type == DType::f16 || type == DType::bf16) && nearest != type;
    // From floats to integers through ours too: the library lets NaN pass.
    const bool truncates = is_integer(type) && is_float(nearest);
    const DType via = truncates               ? DType::f64
                      : !small                ? type
                      : nearest == DType::f64 ? DType::f64
                                              : DType::f32;
    check_size(*this, selection.n, std::max(stored.bytes, size_of(via)));
    Tensor out = Tensor::empty(shape, via);
    if (selection.n > 0) {
      std::string why;
      const auto direct =
          detail::DirectRead::plan(*this, selection.extents, begin, count, via, why);
      std::optional<detail::ChunkGuard> guard;
      if (!direct) {
        log_debug("'", label_, "' is read by the HDF5 library, under its lock: ", why);
        guard.emplace(*this, begin, count);
      }
      const bool fits = direct ? direct->read(out.raw()) : read_by_library(id(), selection, out);
      BORA_CHECK(fits, "a value of type ", stored.name, " is out of the range of ", via);
      read_counter() += selection.n * stored.bytes;
    }
    if (truncates) check_range(out, type, stored.name);
    return small || truncates ? out.to(type) : out;
  });
}

void Dataset::write(const Tensor& values) {
  const std::vector<int64_t> begin(extents().size(), 0);
  BORA_CHECK(values.defined() && values.shape() == shape(), "writing '", label_, "' of shape ",
             shape(), ": the tensor has shape ", values.shape());
  write(begin, values);
}

void Dataset::write(std::span<const int64_t> begin, const Tensor& values) {
  Lock lock;
  with_context("writing '" + label_ + "'", [&] {
    BORA_CHECK(values.defined() && values.device().type == DeviceType::cpu,
               "wanted a defined tensor on the CPU");
    std::vector<int64_t> count;
    for (int i = 0; i < values.rank(); ++i) count.push_back(values.size(i));
    const Selection selection = select(*this, begin, count);
    if (selection.n == 0) return;
    const Id memory = detail::memory_type(values.dtype());
    BORA_HDF5(H5Dwrite(id(), memory.get(), selection.memory.get(), selection.file.get(),
                       H5P_DEFAULT, values.raw()));
  });
}

int64_t bytes_read() { return read_counter().load(); }

void detail::check_block(const Dataset& dataset, std::span<const int64_t> begin,
                         std::span<const int64_t> count) {
  Lock lock;
  with_context("reading '" + dataset.label() + "'",
               [&] { check_size(dataset, select(dataset, begin, count).n, dataset.type().bytes); });
}
void detail::count_bytes_read(int64_t bytes) { read_counter() += bytes; }

}  // namespace bora::data::hdf5
