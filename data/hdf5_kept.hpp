// SPDX-License-Identifier: Apache-2.0
// Unpacked chunks that were asked for last, of all files of this process: patches that overlap, and
// several patches of one volume, unpack a chunk once.  For data/hdf5*.cpp only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace bora::data::hdf5::detail {

/// The front of a chunk after its filters, but for the order of bytes that shuffle left.
struct KeptChunk {
  std::vector<std::byte> bytes;
  bool is_shuffled = false;
  int64_t n_elements = 0;  ///< the first ones, which are there
};

// A store of its own beside Recent: bounded in bytes, a longer front replaces a shorter one, and
// buffers go round; one template of both would have more parameters than lines in common.
/// At most limit() bytes of chunks, beside those that threads have in hand and kMostSpare buffers;
/// a further one drops those that were not asked for longest.  May be used from several threads.
class KeptChunks {
 public:
  /// Of which array, by its number in this process, and which of its chunks.
  struct Name {
    int64_t array = 0, chunk = 0;
    bool operator==(const Name&) const = default;
  };
  static constexpr size_t kMostSpare = 4;

  explicit KeptChunks(int64_t limit_bytes);
  ~KeptChunks();
  KeptChunks(const KeptChunks&) = delete;
  KeptChunks& operator=(const KeptChunks&) = delete;
  /// The one that reads use; kDefaultChunkCacheBytes unless set_chunk_cache (hdf5.hpp) says other.
  static KeptChunks& of_this_process();

  /// 0: nothing is kept.  Drops what is too much now.
  void set_limit(int64_t bytes);
  int64_t limit() const;
  int64_t bytes() const;  ///< that are kept

  /// A chunk of which at least `n_elements` are there, or nothing.
  std::shared_ptr<const KeptChunk> find(const Name& name, int64_t n_elements);
  /// Keeps a chunk, if it is not larger than the limit and not shorter than what is there of it.
  /// Returns a buffer to use in place of its bytes, whose pages were touched, or an empty one.
  std::vector<std::byte> keep(const Name& name, KeptChunk chunk);

 private:
  struct Hash {
    size_t operator()(const Name& n) const {
      return static_cast<size_t>(n.array) * 0x9e3779b97f4a7c15u + static_cast<size_t>(n.chunk);
    }
  };
  struct Entry {
    Name name;
    std::shared_ptr<const KeptChunk> chunk;
    int64_t bytes = 0;
  };
  using Entries = std::list<Entry>;
  struct Spare;

  /// Moves those that are too much behind `dropped`; the caller holds the lock.
  void drop_beyond(int64_t bytes, Entries& dropped);

  mutable std::mutex mutex_;
  int64_t limit_, bytes_ = 0;
  Entries order_;  // the last one asked for first
  std::unordered_map<Name, Entries::iterator, Hash> by_name_;
  std::shared_ptr<Spare> spare_;
};

}  // namespace bora::data::hdf5::detail
