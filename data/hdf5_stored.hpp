// SPDX-License-Identifier: Apache-2.0
// Where the values of a data set lie in its file, in plain numbers: what one read has found out
// serves the next ones of the same file without the HDF5 library.  For data/hdf5*.cpp only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "core/shape.hpp"
#include "data/hdf5_decode.hpp"

namespace bora::data::hdf5::detail {

/// Which file this is and in which state: device, inode, bytes, both times.  Nothing for a file
/// that was written within the last seconds: another write could leave all of these as they are,
/// since systems count times in steps of milliseconds.
std::optional<std::string> state_of(int descriptor);

/// The same of the file at a path; empty where it gives nothing, or the file cannot be opened.
std::string state_of_file(const std::string& path);

/// A chunk of a data set.
struct StoredChunk {
  std::array<int64_t, Shape::kMaxRank> first{};  ///< its first element in the data set
  int64_t at = -1, bytes = 0;                    ///< in the file; bytes 0: never written
  uint32_t mask = 0;                             ///< filters that were left out
  bool is_checked = false;  ///< was unpacked whole before, and its checksums were right
};

/// Runs body(); an Error that leaves it names the chunk: "chunk at (8, 0, 0), 17 bytes stored: ".
/// (with_context would make the text each time.)
template <class Body>
void naming_chunk(const StoredChunk& c, size_t rank, Body&& body) {
  try {
    body();
  } catch (const Error& e) {
    std::string text = "chunk at (";
    for (size_t i = 0; i < rank; ++i) text += bora::detail::join(i ? ", " : "", c.first[i]);
    text += c.bytes > 0 ? bora::detail::join("), ", c.bytes, " bytes stored: ") : "): ";
    throw Error(text + e.what());
  }
}

/// A block of a data set and where its values go.
struct WantedBlock {
  std::span<const int64_t> begin, count;
  DType type = DType::f32;
  Conversion conversion;
  void* to = nullptr;
  bool keeps_chunks = false;  ///< for the next reads: StoredArray::keeps_chunks_of
};

/// The layout is set once and only read then; which chunks are known grows, under a lock.
class StoredArray {
 public:
  StoredArray() = default;
  ~StoredArray();
  StoredArray(const StoredArray&) = delete;
  StoredArray& operator=(const StoredArray&) = delete;

  std::string state;  ///< of the file; empty: what is found out is not kept
  int64_t file_bytes = 0;
  std::vector<int64_t> extents;
  Element element;
  int64_t array_at = -1;       ///< byte of an array in one piece
  std::vector<int64_t> chunk;  ///< else the extents of a chunk
  int64_t chunk_elements = 1, chunk_bytes = 0;
  std::vector<Filter> filters;
  std::array<std::byte, 8> fill{};  ///< an element as in the file

  size_t rank() const { return extents.size(); }

  /// Fills in what is known of the chunk at c.first; false if nothing is.
  bool find(StoredChunk& c) const;
  void keep(const StoredChunk& c);

  /// Unpacks a chunk and copies what the block has of it; false if a value is out of the range of
  /// the block's type.  Of a chunk whose checksums were right before, only what stands before the
  /// last wanted element is unpacked.
  bool take(const StoredChunk& c, std::span<const std::byte> stored, const WantedBlock& block,
            Scratch& scratch) const;
  /// The same, with the stored bytes read from the file; remembers that the checksums were right.
  /// A block that keeps chunks takes what was unpacked before, and keeps what it has to unpack.
  bool take_from(int descriptor, const StoredChunk& c, const WantedBlock& block, Scratch& scratch);

  /// Whether chunks of this block are worth keeping unpacked: the file will be known again, its
  /// chunks are compressed, and they leave room for those of other blocks.
  bool keeps_chunks_of(std::span<const int64_t> begin, std::span<const int64_t> count) const;

  /// Reads a block by what is known alone.  False, with the values undefined, if not all of it is
  /// known or a value is out of range.  Throws Error for what cannot be read.  `descriptor` is of
  /// a file in this state.
  bool read_known(int descriptor, std::span<const int64_t> begin, std::span<const int64_t> count,
                  DType type, void* to);
  /// Whether read_known will find what it needs.
  bool knows(std::span<const int64_t> begin, std::span<const int64_t> count, DType type) const;

 private:
  struct Met {
    int64_t at, bytes;
    uint32_t mask;
    bool is_checked;
  };
  /// The part of a chunk that a block wants.
  struct Part {
    std::array<int64_t, Shape::kMaxRank> count{};
    int64_t from = 0;     ///< its first element in the chunk
    int64_t to = 0;       ///< and in the block
    int64_t n_front = 0;  ///< elements of the chunk up to its last one
  };
  Part part_of(const StoredChunk& c, const WantedBlock& block) const;
  DecodedChunk unpack(const StoredChunk& c, std::span<const std::byte> stored, const Part& part,
                      Scratch& scratch) const;
  /// Of a chunk that was never written: the fill value.
  bool copy_part(const DecodedChunk* decoded, const Part& part, const WantedBlock& block,
                 Scratch& scratch) const;
  int64_t number_of(const StoredChunk& c) const;

  const int64_t serial_ = next_serial();  // in KeptChunks
  static int64_t next_serial();
  mutable std::mutex mutex_;
  std::unordered_map<int64_t, Met> met_;
};

/// The chunks that hold a part of a block, in C order, one after the other.
class ChunksOfBlock {
 public:
  ChunksOfBlock(std::span<const int64_t> chunk, std::span<const int64_t> begin,
                std::span<const int64_t> count);
  bool is_at_end() const { return is_at_end_; }
  StoredChunk next();

 private:
  std::array<int64_t, Shape::kMaxRank> chunk_{}, low_{}, n_{}, at_{};
  size_t rank_;
  bool is_at_end_ = false;
};

/// What was found out about a data set before, or nothing.
std::shared_ptr<StoredArray> find_stored(const std::string& state, const std::string& name);
/// Keeps it for the next reads, by its state, which is not empty; returns what is kept.
std::shared_ptr<StoredArray> keep_stored(const std::string& name,
                                         std::shared_ptr<StoredArray> array);

/// Chunks that are remembered by this process now, of all data sets: at most kMostKnownChunks and
/// what is in use.
int64_t n_known_chunks();
inline constexpr int64_t kMostKnownChunks = int64_t{1} << 18;  // about 16 MiB

/// Bytes of chunks that were unpacked by this process so far; against bytes_read() this is the
/// read amplification.
int64_t chunk_bytes_decoded();
/// Adds to bytes_read().
void count_bytes_read(int64_t bytes);

}  // namespace bora::data::hdf5::detail
