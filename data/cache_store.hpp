// SPDX-License-Identifier: Apache-2.0
// Inner header of data: where a VolumeCache keeps its fields.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/collective.hpp"
#include "core/shape.hpp"
#include "core/tensor.hpp"
#include "data/cache_config.hpp"

namespace bora::data {

/// Texts of one line: which field, and the state of its file.
struct CacheKey {
  std::string field, state;
};

/// The cells [begin, begin + count) of a field of the extents `of`, in C order.
struct CacheBox {
  Dims3 of, begin, count;
  int64_t cell_bytes = 1;
};
/// Copies a box of a field that lies in memory to `to`.
void copy_box(const void* whole, const CacheBox& box, void* to);

/// Where the fields lie: memory of this process, of this host, or files.  Inner to the cache.
class CacheStore {
 public:
  virtual ~CacheStore() = default;
  /// Copies a box of a field that does not change any more; false: the field is not there.
  virtual bool read(size_t field, const CacheBox& box, void* to) = 0;
  /// True: the caller is the one to read the whole field, and says put() or drop() next.  False:
  /// there is no room for it, or somebody is reading it now.
  virtual bool claim(size_t field) = 0;
  /// Keeps it.  Throws Error where that cannot be; then drop() follows.
  virtual void put(size_t field, const Tensor& whole) = 0;
  /// Gives the place back; nobody tries this field again.
  virtual void drop(size_t field) noexcept = 0;
  /// Bytes that it holds or has promised: of this process, this host, or the folder.
  virtual int64_t bytes() const = 0;
  /// What a field of so many bytes takes.
  virtual int64_t room_for(int64_t field_bytes) const { return field_bytes; }
  /// "of each rank", "of this host", "in '/local/cache'"
  virtual std::string where() const = 0;
};

/// `bytes` of each field, `limit` of all that are kept.
std::unique_ptr<CacheStore> make_ram_store(std::vector<int64_t> bytes, int64_t limit);
/// Collective (nullptr: this process alone); throws UsageError on all ranks, naming settings of the
/// table `key`, where /dev/shm has not the room.
std::unique_ptr<CacheStore> make_shared_store(std::vector<int64_t> bytes, int64_t limit,
                                              const std::string& key, Collective* ranks);
/// `keys`: texts of one line that say which field it is, of which state of its file.  Collective;
/// throws UsageError on all ranks for a config.folder that is empty, or cannot be written to.
/// config.only_looks: nothing is made, kept or removed in the folder, which need not be there.
std::unique_ptr<CacheStore> make_disk_store(std::vector<int64_t> bytes, int64_t limit,
                                            std::vector<CacheKey> keys, const CacheConfig& config,
                                            Collective* ranks);

}  // namespace bora::data
