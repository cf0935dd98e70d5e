// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_kept.hpp"

#include <utility>

#include "core/error.hpp"
#include "data/hdf5.hpp"

namespace bora::data::hdf5 {

namespace detail {

/// Buffers of dropped chunks: the pages of a new one would cost a tenth of the unpacking.
struct KeptChunks::Spare {
  std::mutex mutex;
  std::vector<std::vector<std::byte>> buffers;

  Spare() { buffers.reserve(kMostSpare); }  // give() is called where nothing may throw
  void give(std::vector<std::byte> buffer) {
    const std::lock_guard lock(mutex);
    if (buffers.size() < kMostSpare) buffers.push_back(std::move(buffer));
  }
  std::vector<std::byte> take() {
    std::vector<std::byte> buffer;
    const std::lock_guard lock(mutex);
    if (buffers.empty()) return buffer;
    buffer = std::move(buffers.back());
    buffers.pop_back();
    return buffer;
  }
};

KeptChunks::KeptChunks(int64_t limit_bytes)
    : limit_(limit_bytes), spare_(std::make_shared<Spare>()) {
  BORA_CHECK(limit_bytes >= 0, "KeptChunks: a limit of ", limit_bytes, " bytes, wanted >= 0");
}
KeptChunks::~KeptChunks() = default;

KeptChunks& KeptChunks::of_this_process() {
  static auto& kept = *new KeptChunks(kDefaultChunkCacheBytes);  // threads may outlive main
  return kept;
}

void KeptChunks::set_limit(int64_t bytes) {
  BORA_CHECK(bytes >= 0, "KeptChunks: a limit of ", bytes, " bytes, wanted >= 0");
  Entries dropped;
  {
    const std::lock_guard lock(mutex_);
    limit_ = bytes;
    drop_beyond(0, dropped);
  }
  dropped.clear();
  if (bytes > 0) return;
  const std::lock_guard lock(spare_->mutex);
  spare_->buffers.clear();
}

int64_t KeptChunks::limit() const {
  const std::lock_guard lock(mutex_);
  return limit_;
}

int64_t KeptChunks::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::shared_ptr<const KeptChunk> KeptChunks::find(const Name& name, int64_t n_elements) {
  const std::lock_guard lock(mutex_);
  const auto at = by_name_.find(name);
  if (at == by_name_.end()) return nullptr;
  // Also where it is too short: it is about to be replaced, and was asked for.
  order_.splice(order_.begin(), order_, at->second);
  if (at->second->chunk->n_elements < n_elements) return nullptr;
  return at->second->chunk;
}

std::vector<std::byte> KeptChunks::keep(const Name& name, KeptChunk chunk) {
  Entries dropped;  // ends after the lock: what is dropped gives its buffer back
  {
    const std::lock_guard lock(mutex_);
    const auto at = by_name_.find(name);
    const bool is_there = at != by_name_.end();
    const auto bytes = static_cast<int64_t>(chunk.bytes.capacity());
    if (bytes > limit_ || (is_there && at->second->chunk->n_elements >= chunk.n_elements))
      return std::move(chunk.bytes);
    if (is_there) {
      bytes_ -= at->second->bytes;
      dropped.splice(dropped.end(), order_, at->second);
      by_name_.erase(at);
    }
    drop_beyond(bytes, dropped);
    // The last one that uses a chunk, here or a thread that reads of it, gives its buffer back.
    auto* kept = new KeptChunk(std::move(chunk));
    const std::shared_ptr<const KeptChunk> shared(kept, [spare = spare_, kept](const KeptChunk*) {
      spare->give(std::move(kept->bytes));
      delete kept;
    });
    Entries mine;
    mine.push_front({name, shared, bytes});
    by_name_[name] = mine.begin();
    order_.splice(order_.begin(), mine);  // from here on nothing can throw
    bytes_ += bytes;
  }
  dropped.clear();
  return spare_->take();
}

void KeptChunks::drop_beyond(int64_t bytes, Entries& dropped) {
  while (!order_.empty() && bytes_ + bytes > limit_) {
    const auto last = std::prev(order_.end());
    bytes_ -= last->bytes;
    by_name_.erase(last->name);
    dropped.splice(dropped.end(), order_, last);
  }
}

}  // namespace detail

void set_chunk_cache(int64_t bytes) { detail::KeptChunks::of_this_process().set_limit(bytes); }
NoChunkCache::NoChunkCache() : limit_(detail::KeptChunks::of_this_process().limit()) {
  set_chunk_cache(0);
}
NoChunkCache::~NoChunkCache() { set_chunk_cache(limit_); }
int64_t chunk_cache_bytes() { return detail::KeptChunks::of_this_process().bytes(); }

}  // namespace bora::data::hdf5
