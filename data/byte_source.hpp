// SPDX-License-Identifier: Apache-2.0
// ByteSource: the bytes of a file at an offset, whether the file is plain or packed with gzip.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace bora::data {

/// Open for reading, from one thread at a time.
class ByteSource {
 public:
  explicit ByteSource(std::string path) : path_(std::move(path)) {}
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  const std::string& path() const { return path_; }
  virtual bool is_gzip() const = 0;
  virtual int64_t file_bytes() const = 0;
  /// No more bytes than this can come out: the size of a plain file; what the densest stream of a
  /// gzip file's size can hold.  To refuse sizes that cannot be before memory is asked for.
  virtual int64_t most_bytes() const = 0;
  /// Up to `bytes` at `offset`; fewer only at the end.  Gives the count.  Throws Error naming the
  /// file for a failed read and a damaged stream.
  virtual int64_t read_some(int64_t offset, void* to, int64_t bytes) = 0;
  /// All of them, else Error: the file is too short.
  void read(int64_t offset, void* to, int64_t bytes);
  /// Reads a gzip stream to its end, once, so that its checksums and its length are checked; throws
  /// Error naming the file for a fault.  Nothing for a plain file.
  virtual void check_to_end() = 0;

 private:
  std::string path_;
};

/// By content.  Offsets of a gzip file are of the unpacked bytes; going back begins again at the
/// start, going forward unpacks what lies between (64 KiB are held).  Several members and zeros
/// behind the last one are read as gzip does; other bytes there are refused.  Throws Error for what
/// is missing, not a plain file, or unreadable.
std::unique_ptr<ByteSource> open_bytes(const std::string& path);

/// Whether a plain file has the mark of HDF5 (hdf5_mark.hpp).  Throws Error for a failed read.
bool has_hdf5_mark(ByteSource& file);

}  // namespace bora::data
