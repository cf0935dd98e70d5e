// SPDX-License-Identifier: Apache-2.0
#include "core/allocator.hpp"

#include <algorithm>

#include "core/backend.hpp"
#include "core/error.hpp"

namespace bora {
namespace {

constexpr int64_t kAlignment = 256;              // one cuDNN/AVX-512 friendly alignment for all
constexpr int64_t kSegment = int64_t{64} << 20;  // small requests share segments of this size
constexpr int64_t kHugePage = int64_t{2} << 20;  // segments are whole huge pages

int64_t round_up(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

thread_local const char* t_op = "(none)";

}  // namespace

AllocationTag::AllocationTag(const char* name) : previous_(t_op) { t_op = name; }
AllocationTag::~AllocationTag() { t_op = previous_; }

CachingAllocator::CachingAllocator(Device device) : device_(device) {}

CachingAllocator::~CachingAllocator() {
  for (auto& [data, bytes] : segments_) backend(device_.type).free(data, bytes, device_);
}

void CachingAllocator::grow_locked(int64_t size) {
  const int64_t bytes = round_up(std::max(size, kSegment), kHugePage);
  char* data = nullptr;
  const auto take = [&] {
    data = static_cast<char*>(backend(device_.type).allocate(bytes, device_));
  };
  try {
    take();
  } catch (const Error&) {
    // Free segments, each too small, may be what is missing.
    release_cached_locked();
    try {
      take();
    } catch (const Error& e) {
      throw Error(detail::join(e.what(), "; ", device_, " holds ", stats_.live >> 20, " MiB live, ",
                               stats_.reserved >> 20, " MiB reserved, peak ", stats_.peak >> 20,
                               " MiB: use a smaller batch or patch, a smaller base, or recompute"));
    }
  }
  segments_[data] = bytes;
  blocks_[data] = Block{bytes, 0, n_segments_++, nullptr};
  free_.insert({bytes, data});
  stats_.reserved += bytes;
  ++stats_.n_backend_allocations;
}

void* CachingAllocator::allocate(int64_t bytes) {
  BORA_CHECK(bytes > 0, "CachingAllocator: ", bytes, " bytes asked for");
  const int64_t size = round_up(bytes, kAlignment);
  const std::lock_guard lock(mutex_);
  if (free_.lower_bound({size, nullptr}) == free_.end()) grow_locked(size);
  return take_locked(size, bytes);
}

void* CachingAllocator::take_locked(int64_t size, int64_t requested) {
  const auto best = free_.lower_bound({size, nullptr});
  char* data = best->second;
  free_.erase(best);
  Block& block = blocks_[data];
  if (block.size > size) {
    blocks_[data + size] = Block{block.size - size, 0, block.segment, nullptr};
    free_.insert({block.size - size, data + size});
    block.size = size;
  }
  block.requested = requested;
  block.op = t_op;
  ++stats_.n_allocations;
  stats_.live += size;
  live_by_op_[t_op] += size;
  if (stats_.live > stats_.peak) {
    stats_.peak = stats_.live;
    stats_.by_op_at_peak.clear();
    for (const auto& [op, live] : live_by_op_)
      if (live > 0) stats_.by_op_at_peak[op] += live;
  }
  return data;
}

void CachingAllocator::free(void* pointer) noexcept {
  const std::lock_guard lock(mutex_);
  auto it = blocks_.find(static_cast<char*>(pointer));
  if (it == blocks_.end() || it->second.requested == 0)
    return;  // not ours, or freed twice: Storage prevents both
  stats_.live -= it->second.size;
  live_by_op_[it->second.op] -= it->second.size;
  it->second.requested = 0;
  // Merge with the free neighbours of the same segment.
  if (auto next = std::next(it); next != blocks_.end() && next->second.requested == 0 &&
                                 next->second.segment == it->second.segment) {
    free_.erase({next->second.size, next->first});
    it->second.size += next->second.size;
    blocks_.erase(next);
  }
  if (it != blocks_.begin()) {
    auto previous = std::prev(it);
    if (previous->second.requested == 0 && previous->second.segment == it->second.segment) {
      free_.erase({previous->second.size, previous->first});
      previous->second.size += it->second.size;
      blocks_.erase(it);
      it = previous;
    }
  }
  free_.insert({it->second.size, it->first});
}

MemoryStats CachingAllocator::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void CachingAllocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak = stats_.live;
  stats_.by_op_at_peak.clear();
  for (const auto& [op, live] : live_by_op_)
    if (live > 0) stats_.by_op_at_peak[op] += live;
}

void CachingAllocator::release_cached() {
  const std::lock_guard lock(mutex_);
  release_cached_locked();
}

void CachingAllocator::release_cached_locked() {
  for (auto segment = segments_.begin(); segment != segments_.end();) {
    const auto block = blocks_.find(segment->first);
    if (block->second.requested == 0 && block->second.size == segment->second) {
      free_.erase({block->second.size, block->first});
      blocks_.erase(block);
      backend(device_.type).free(segment->first, segment->second, device_);
      stats_.reserved -= segment->second;
      segment = segments_.erase(segment);
    } else {
      ++segment;
    }
  }
}

namespace {

// Never destroyed: tensors in static or thread-local variables may be freed after any static
// destructor has run.
std::map<std::pair<int, int>, CachingAllocator*>& allocators() {
  static auto* table = new std::map<std::pair<int, int>, CachingAllocator*>();
  return *table;
}
std::mutex& allocators_mutex() {
  static auto* mutex = new std::mutex();
  return *mutex;
}

}  // namespace

CachingAllocator& caching_allocator(Device device) {
  thread_local Device last{DeviceType::cpu, -1};
  thread_local CachingAllocator* found = nullptr;
  if (found == nullptr || !(last == device)) {
    const std::lock_guard lock(allocators_mutex());
    auto*& slot = allocators()[{static_cast<int>(device.type), device.index}];
    if (slot == nullptr) slot = new CachingAllocator(device);
    found = slot;
    last = device;
  }
  return *found;
}

Allocator& allocator(Device device) { return caching_allocator(device); }

}  // namespace bora
