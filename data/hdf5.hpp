// SPDX-License-Identifier: Apache-2.0
// HDF5: files, groups, data sets and attributes with an owner, one lock, and errors that say which
// file and why.  The C library is hidden: nothing here includes its headers.
#pragma once

#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/status.hpp"
#include "core/tensor.hpp"

namespace bora::data::hdf5 {

/// The one lock of the process around the C library, recursive.  Every function below takes it, the
/// destructors too, so single calls are safe also with a library that was built without thread
/// safety.  Hold it yourself over a scope whose steps belong together (open, read, close).
class Lock {
 public:
  Lock();
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};

/// Status traits for bora::check: every id, count and status of the C library is negative on
/// failure.  The text is the library's error stack in one line, deepest cause last.
struct Status {
  using Code = int64_t;
  static bool ok(Code code) { return code >= 0; }
  static std::string text(Code code);
  static constexpr const char* name = "HDF5";
};

/// Checks a call of the C library and gives back its value; for .cpp files in data/ only.  The
/// caller holds the Lock: without it, Error, before the call.
#define BORA_HDF5(call)                             \
  (::bora::data::hdf5::detail::require_lock(#call), \
   ::bora::data::hdf5::detail::checked((call), #call))
#define BORA_HDF5_WARN(call) ::bora::check_warn<::bora::data::hdf5::Status>((call), #call)

namespace detail {
struct WriteFault;
/// Whether the calling thread holds the Lock.
bool holds_lock();
/// Throws Error unless it does.  A race inside the library shows once in a thousand runs; this
/// shows it in the first.
void require_lock(const char* call);
/// Throws Error "HDF5: H5Dread failed: <why>": the call's name, without our arguments.
[[noreturn]] void refuse_call(const char* call, int64_t code, std::source_location where);
template <class T>
T checked(T code, const char* call, std::source_location where = std::source_location::current()) {
  if (!Status::ok(static_cast<int64_t>(code))) [[unlikely]]
    refuse_call(call, static_cast<int64_t>(code), where);
  return code;
}
}  // namespace detail

/// Move-only owner of an id of any kind (file, group, data set, type, space, list).
class Id {
 public:
  Id() = default;
  explicit Id(int64_t value);
  Id(Id&& other) noexcept;
  Id& operator=(Id&& other) noexcept;
  ~Id() { reset(); }
  /// Throws Error when there is none, or when it was made before a fork: a child process must open
  /// the file by itself, since both would share the position in the file.
  int64_t get() const;
  explicit operator bool() const { return value_ >= 0; }
  /// Gives it back; a failure is logged.
  void reset() noexcept;
  /// Hands the id to the caller, who closes it.
  int64_t release() noexcept { return std::exchange(value_, -1); }

 private:
  int64_t value_ = -1;
  int process_ = 0;
};

/// What a data set or attribute holds.
struct TypeInfo {
  enum class Kind { integer, floating, text, other };
  Kind kind = Kind::other;
  int64_t bytes = 0;      ///< of one element in the file
  bool is_signed = true;  ///< of an integer
  std::string name;       ///< "f32", "i16", "u8", "text", "variable text", "compound", ...
  /// The smallest of our types that holds every value of it (i8, i16 and u16 become i32; u32 and
  /// u64 become i64).  Throws Error unless kind is integer or floating.
  DType dtype() const;
};

class Group;

/// Anything that can carry attributes.
class Object {
 public:
  /// "<path of the file>:<path of the object>", for messages.
  const std::string& label() const { return label_; }

  bool has_attribute(const std::string& name) const;
  std::vector<std::string> attribute_names() const;  ///< sorted
  TypeInfo attribute_type(const std::string& name) const;

  /// Reads an attribute.  T: int64_t, uint64_t, double, bool, std::string, or std::vector of
  /// int64_t, uint64_t, double, std::string.  Numbers convert (a fraction or a value out of range
  /// is an error for an integer T); a scalar T accepts an array of one element; text may be of
  /// fixed or variable length.  Throws Error naming file, object and attribute if it is missing or
  /// does not fit.
  template <class T>
  T attribute(const std::string& name) const;

  /// Creates or replaces an attribute.  A string is written with fixed length (as NetCDF-4 does), a
  /// bool as u8.
  void set_attribute(const std::string& name, int64_t value);
  void set_attribute(const std::string& name, int value) {
    set_attribute(name, static_cast<int64_t>(value));
  }
  void set_attribute(const std::string& name, uint64_t value);
  void set_attribute(const std::string& name, double value);
  void set_attribute(const std::string& name, float value);
  void set_attribute(const std::string& name, bool value);
  void set_attribute(const std::string& name, std::string_view value);
  void set_attribute(const std::string& name, const char* value) {
    set_attribute(name, std::string_view(value));
  }
  void set_attribute(const std::string& name, const std::string& value) {
    set_attribute(name, std::string_view(value));
  }
  void set_attribute(const std::string& name, const std::vector<int64_t>& values);
  void set_attribute(const std::string& name, const std::vector<double>& values);
  void set_attribute(const std::string& name, const std::vector<std::string>& values);

  /// Copies one attribute as it is (type, shape, bytes) to another object, perhaps of another file.
  /// Throws Error for types that point into the file (references).
  void copy_attribute(const std::string& name, Object& to) const;

  /// The id, for the .cpp files of data/.
  int64_t id() const { return id_.get(); }

 protected:
  Object() = default;
  Object(Id id, std::string label) : id_(std::move(id)), label_(std::move(label)) {}
  Id id_;
  std::string label_;
};

/// How a data set is stored.  `chunk` empty: contiguous, or one chunk when a filter is asked for.
struct Storage {
  std::vector<int64_t> chunk;
  int deflate = 0;  ///< 0 (off) to 9
  bool shuffle = false;
  bool fletcher32 = false;  ///< a checksum per chunk, tested on reading
};

class Dataset : public Object {
 public:
  Dataset() = default;
  std::vector<int64_t> extents() const;
  /// The extents as a Shape; throws Error above six axes.
  Shape shape() const;
  TypeInfo type() const;
  std::vector<int64_t> chunk() const;  ///< empty when contiguous
  /// How it is stored, as far as Storage can say it: other filters are left out.
  Storage storage() const;
  /// Bytes that the data take in the file, after compression.
  int64_t stored_bytes() const;

  /// All elements, or the block of `count` elements from `begin` on, as a tensor on the CPU, of the
  /// nearest type of ours (TypeInfo::dtype) or of `type`.  Values convert as a cast does; an
  /// integer out of the range of an integer type is an error (floats overflow to inf).
  Tensor read() const;
  Tensor read(DType type) const;
  Tensor read(std::span<const int64_t> begin, std::span<const int64_t> count, DType type) const;
  /// Writes all, or a block; the tensor is on the CPU and has the block's extents.
  void write(const Tensor& values);
  void write(std::span<const int64_t> begin, const Tensor& values);

 private:
  friend class Group;
  using Object::Object;
};

/// A group, and the data sets and groups below it.  Paths may have several parts ("a/b/c").
class Group : public Object {
 public:
  Group() = default;
  bool exists(const std::string& path) const;
  bool is_group(const std::string& path) const;
  /// Whether both are one object of one file, by whatever links.
  bool is_same(const Group& other) const;
  bool is_dataset(const std::string& path) const;
  /// Direct children, sorted by name.
  std::vector<std::string> names() const;
  std::vector<std::string> group_names() const;
  std::vector<std::string> dataset_names() const;

  /// Throw Error naming the file, the path and what is there instead.
  Group open_group(const std::string& path) const;
  Dataset open_dataset(const std::string& path) const;

  /// Creates it and what is missing above it.  Throws Error if it exists.
  Group create_group(const std::string& path);
  /// Creates a data set without writing to it (groups above it are made).
  Dataset create_dataset(const std::string& path, const Shape& shape, DType type,
                         const Storage& storage = {});
  /// The same for numbers of any width in the file: "i8", "u8", "i16", ..., "u64", "f16", "bf16",
  /// "f32", "f64" (TypeInfo::name).  What is written to it converts; nothing warns of values out of
  /// its range.
  Dataset create_dataset(const std::string& path, const Shape& shape,
                         const std::string& stored_type, const Storage& storage = {});
  /// Creates and writes; the tensor is on the CPU, its type is kept (f16 and bf16 too).
  Dataset write_dataset(const std::string& path, const Tensor& values, const Storage& storage = {});

 protected:
  using Object::Object;
  Group wrap(Id id, const std::string& path) const;
  Dataset create_of(const std::string& path, const Shape& shape, const Id& element,
                    const Storage& storage);
  std::string child_label(const std::string& path) const;
  std::string file_;
};

/// An open file; also its root group.  Close it by close() after writing: only that reports errors.
class File : public Group {
 public:
  File() = default;
  /// For reading.  Takes no file lock, so that network file systems without locks and files that
  /// somebody else has open both work.  Throws Error naming the file and the reason: missing, no
  /// permission, empty, truncated, another format (NetCDF-3 with the command that converts it).
  static File open(const std::string& path);
  /// For writing; replaces what is there.  Takes no lock either.
  static File create(const std::string& path);
  File(File&&) = default;
  File& operator=(File&&) = default;
  ~File();

  const std::string& path() const { return file_; }
  /// Writes buffers out to the operating system.
  void flush();
  /// Throws Error naming the file and the reason if anything could not be written so far: the
  /// functions that write do not say it, since what the library buffers is written later.
  void check_written() const;
  /// Flushes and closes; throws Error when something could not be written.
  void close();

 private:
  Id file_id_;
  std::shared_ptr<detail::WriteFault> fault_;  // of a writable file
  bool writable_ = false;
};

/// Bytes of elements that were read by this process from data sets so far, in the file's types.
int64_t bytes_read();

/// Unpacked chunks of compressed data sets are kept for the next reads of this process, those of
/// all files together up to so many bytes; 0: none.  Only of files open for reading whose last
/// change is some seconds old.  May be called at any time, by any thread.
void set_chunk_cache(int64_t bytes);
inline constexpr int64_t kDefaultChunkCacheBytes = int64_t{64} << 20;
/// That are kept now.
int64_t chunk_cache_bytes();

/// While one lives no unpacked chunk is kept, and those that were are dropped: what is timed
/// unpacks each time.  Then set_chunk_cache's limit holds again.  One at a time.
class NoChunkCache {
 public:
  NoChunkCache();
  ~NoChunkCache();
  NoChunkCache(const NoChunkCache&) = delete;
  NoChunkCache& operator=(const NoChunkCache&) = delete;

 private:
  int64_t limit_;
};

/// Ids that are open in this process now: files, groups, data sets, types, attributes.
int64_t open_objects();

/// Whether the library was built thread-safe (ours works with both).
bool library_is_threadsafe();
std::string library_version();

namespace detail {
/// Ids of the C library's types; the caller owns the result.
Id memory_type(DType type);
TypeInfo describe_type(int64_t type);
/// "'a', 'b'" or "none", for messages.
std::string list_of(const std::vector<std::string>& names);
}  // namespace detail

}  // namespace bora::data::hdf5
