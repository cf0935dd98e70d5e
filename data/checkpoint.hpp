// SPDX-License-Identifier: Apache-2.0
// Checkpoints: the state of a run in one HDF5 file, written whole or not at all, checked before
// use.
//
// Layout of a file, format version 1:
//   bytes 0-511   (the HDF5 user block) text padded with zeros: format, version, bytes in the file,
//                 checksum of all bytes after the header
//   /state/<name> one data set per tensor or value under its dotted name.  Attribute `kind`:
//   "tensor",
//                 "i64", "u64", "f64", "bool", "text", "list of f64", "list of i64", "list of
//                 text"; `checksum`: of its bytes; tensors also have `axes` ("O,kD,kH,kW,I").  Text
//                 is fixed-length UTF-8.
//   attributes of /state: `created_by`, `n_entries`
// Readable by any HDF5 tool.  The header's checksum is tested before the HDF5 library sees the
// file, and nothing in a file is ever executed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/state.hpp"

namespace bora::data {

inline constexpr int64_t kCheckpointVersion = 1;

/// zlib's CRC-32 in the high and Adler-32 in the low half; `before` is the value of what comes
/// before these bytes (for long inputs in pieces; kChecksumStart for none).
inline constexpr uint64_t kChecksumStart = 1;
uint64_t checksum(const void* data, int64_t bytes, uint64_t before = kChecksumStart);

/// Saver.  A visit copies the state into memory of the writer's own; commit() writes the file from
/// there, at any later time and from any thread.  Tensors may be on any device: copies to pinned
/// memory are started as the state is visited, in the order of the device's current stream, and
/// commit() waits for them.  Holds one copy of the state and nothing else that is large.
class CheckpointWriter final : public StateVisitor {
 public:
  CheckpointWriter();
  ~CheckpointWriter() override;

  /// Forgets the state and keeps the memory, for the next visit.
  void clear();
  /// Bytes of the entries visited.
  int64_t bytes() const;

  /// Puts the file in the place of `path` (see AtomicFile); with `keep_as` the old one stays under
  /// that path.  May be called again for another path.  Throws Error naming the file; the old file
  /// is then untouched.
  void commit(const std::string& path, const std::string& keep_as = {});
  /// Grows while commit() gets on; for other threads.
  int64_t progress() const;

  bool loading() const override { return false; }
  bool has_entry(std::string_view) const override { return true; }
  void tensor(std::string_view name, Tensor& value, std::string_view axes = {}) override;
  void value(std::string_view name, int64_t& value) override;
  void value(std::string_view name, uint64_t& value) override;
  void value(std::string_view name, double& value) override;
  void value(std::string_view name, bool& value) override;
  void value(std::string_view name, std::string& value) override;
  void value(std::string_view name, std::vector<double>& value) override;
  void value(std::string_view name, std::vector<int64_t>& value) override;
  void value(std::string_view name, std::vector<std::string>& value) override;
  void enter(std::string_view group) override;
  void leave() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What finish() says about entries of the file that nobody asked for.
enum class Unread {
  refuse,  ///< an error with their names: for resuming, where the whole state must fit
  allow    ///< fine: for using the model of a training checkpoint without its optimizer
};

/// Loader.  Opening checks the whole file.  Every wanted entry must be there with the same kind,
/// type and shape; what does not fit is collected and reported by finish(), all of it at once.
/// After an error the objects are partly loaded: do not go on with them.
class CheckpointReader final : public StateVisitor {
 public:
  /// Throws Error naming the file and what is wrong: missing, no checkpoint, of a later format,
  /// truncated, corrupt.
  explicit CheckpointReader(const std::string& path);
  ~CheckpointReader() override;

  const std::string& path() const;
  /// All names in the file, sorted.
  std::vector<std::string> names() const;
  bool has(std::string_view name) const;
  /// One entry, for a look before the objects exist (the configuration that the model is built
  /// from); does not count as read.  T: int64_t, uint64_t, double, bool, std::string, or a vector
  /// of int64_t, double, std::string.  Throws Error if it is missing or of another kind.
  template <class T>
  T peek(std::string_view name);
  /// Shape and type in text, "(16, 3, 3, 3, 2) f32", or the kind of a value.
  std::string describe(std::string_view name) const;

  /// Throws Error with the lists of missing, unexpected and mismatching names if there are any, or
  /// if nothing at all was asked for.  Call it after the last object.
  void finish(Unread unread = Unread::refuse);

  bool loading() const override { return true; }
  bool has_entry(std::string_view name) const override;
  void tensor(std::string_view name, Tensor& value, std::string_view axes = {}) override;
  void value(std::string_view name, int64_t& value) override;
  void value(std::string_view name, uint64_t& value) override;
  void value(std::string_view name, double& value) override;
  void value(std::string_view name, bool& value) override;
  void value(std::string_view name, std::string& value) override;
  void value(std::string_view name, std::vector<double>& value) override;
  void value(std::string_view name, std::vector<int64_t>& value) override;
  void value(std::string_view name, std::vector<std::string>& value) override;
  void enter(std::string_view group) override;
  void leave() override;

 private:
  template <class T>
  void load(std::string_view name, T& value);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

using StateFunction = std::function<void(StateVisitor&)>;

/// Saves what `state` visits to `path`; `keep_as` as in CheckpointWriter::commit.
void save_checkpoint(const std::string& path, const StateFunction& state,
                     const std::string& keep_as = {});
/// Loads what `state` visits from `path` and calls finish(unread).
void load_checkpoint(const std::string& path, const StateFunction& state,
                     Unread unread = Unread::refuse);

/// Checks the whole file as CheckpointReader does; throws the same errors.
void verify_checkpoint(const std::string& path);

}  // namespace bora::data
