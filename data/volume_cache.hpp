// SPDX-License-Identifier: Apache-2.0
// VolumeCache: fields that were read once, kept as they are, for the boxes that samples take of
// them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/collective.hpp"
#include "core/tensor.hpp"
#include "data/cache_config.hpp"
#include "data/cache_store.hpp"
#include "data/file_stamp.hpp"

namespace bora::data {

/// A field, or the box of it that samples are taken from: what is kept as a whole.
struct CachedField {
  std::string path;
  FileStamp stamp{};  ///< of the file when it was looked at
  std::string variable;
  Dims3 begin, count;       ///< cells of the file's grid
  int64_t channels = 0;     ///< of a last axis; 0: there is none
  DType type = DType::f32;  ///< that it is read as; wide enough for what the file holds
  /// What else decides the values (the order of the axes): fields that differ in it are kept apart.
  std::string reading;

  int64_t bytes() const;
};

/// Boxes of fields, out of memory or a local file where the whole field was kept, else from the
/// field's own file.  Values are the same bits either way, whatever threads and ranks do.
///
/// What does not fit stays in its file, and what is kept stays until the end: in the random order
/// of an epoch a cache of a share s of the data then answers the share s of all reads, while one
/// that throws out the least recently used would answer s + (1 - s) ln(1 - s) of them, about
/// s^2 / 2: it throws most fields out before their turn comes again.  Nobody waits for another
/// thread or rank: who finds a field under way reads its own box from the file.
class VolumeCache {
 public:
  /// Reads the cells [begin, begin + count) of a field from its file: (X, Y, Z[, channels]) of its
  /// type.  Callable from several threads at once.
  using ReadBox = std::function<Tensor(const Dims3& begin, const Dims3& count)>;

  /// `fields` are the same on all ranks, in the same order.  Collective over `ranks` where they
  /// share something (nullptr: this process alone).  nullptr for kind = none.  Also sets this
  /// process's hdf5::set_chunk_cache.  Throws UsageError on
  /// all ranks: for kind = shared where /dev/shm has less room than the data or the limit take, for
  /// kind = disk without a folder, or one that cannot be written to.
  static std::unique_ptr<VolumeCache> make(const CacheConfig& config,
                                           std::vector<CachedField> fields, Collective* ranks);

  /// The cells [begin, begin + count) of the file's grid.  Throws Error naming the file if it has
  /// changed since it was looked at, and what `from_file` throws for these cells.  Safe to call
  /// from several threads at once.
  Tensor read(size_t field, const Dims3& begin, const Dims3& count, const ReadBox& from_file);

  /// One line: kind, limit, and how much of the data fits.
  std::string describe() const;

  struct Counts {
    int64_t from_cache = 0;  ///< boxes
    int64_t from_file = 0;   ///< boxes, of fields that are not kept
    int64_t kept = 0;        ///< whole fields that this process read and kept
    int64_t bytes = 0;       ///< CacheStore::bytes()
  };
  /// Of this process so far.
  Counts counts() const;

  /// Memory that it takes when it is full: of this process (ram), and of the host, once for all its
  /// ranks (shared).  A cache on a disk takes none.
  struct Memory {
    int64_t of_rank = 0, of_host = 0;
  };
  Memory memory() const;

  /// Over a store of the caller's, for tests.
  VolumeCache(CacheConfig config, std::vector<CachedField> fields,
              std::unique_ptr<CacheStore> store);

 private:
  Tensor read_whole_and_cut(size_t field, const Dims3& begin, const Dims3& count,
                            const ReadBox& from_file);

  CacheConfig config_;
  std::vector<CachedField> fields_;
  std::vector<size_t> place_;  // of each field in the store: fields named twice are kept once
  int64_t wanted_bytes_ = 0;   // of all fields
  std::unique_ptr<CacheStore> store_;
  std::atomic<int64_t> n_from_cache_{0}, n_from_file_{0}, n_kept_{0};
  std::atomic<bool> failure_told_{false};
};

}  // namespace bora::data
