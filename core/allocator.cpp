// SPDX-License-Identifier: Apache-2.0
#include "core/allocator.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "core/backend.hpp"
#include "core/error.hpp"
#include "core/memory_report.hpp"

namespace bora {
namespace {

constexpr int64_t kAlignment = 256;              // one cuDNN/AVX-512 friendly alignment for all
constexpr int64_t kSegment = int64_t{64} << 20;  // small requests share segments of this size
constexpr int64_t kHugePage = int64_t{2} << 20;  // segments are whole huge pages

int64_t round_up(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

thread_local const char* t_op = "(none)";
thread_local std::vector<std::shared_ptr<CachingAllocator>> t_pools;  // innermost scope last

std::atomic<bool>& poison_flag() {
  static std::atomic<bool> on = [] {
    const char* value = std::getenv("BORA_DEBUG_MEMORY");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return on;
}

}  // namespace

AllocationTag::AllocationTag(const char* name) : previous_(t_op) { t_op = name; }
AllocationTag::~AllocationTag() { t_op = previous_; }

AllocationPoolScope::AllocationPoolScope(std::shared_ptr<CachingAllocator> pool) {
  BORA_CHECK(pool != nullptr, "AllocationPoolScope: no pool");
  t_pools.push_back(std::move(pool));
}
AllocationPoolScope::~AllocationPoolScope() { t_pools.pop_back(); }

std::shared_ptr<CachingAllocator> allocation_pool(Device device) {
  for (auto pool = t_pools.rbegin(); pool != t_pools.rend(); ++pool)
    if ((*pool)->device() == device) return *pool;
  return nullptr;
}

void set_memory_poison(bool on) { poison_flag() = on; }
bool memory_poison() { return poison_flag(); }

namespace {

// All that live, for memory_of().  Never destroyed, as the allocators of devices.
struct Living {
  std::mutex mutex;
  std::set<CachingAllocator*> all;
};
Living& living() {
  static auto* instance = new Living();
  return *instance;
}

}  // namespace

CachingAllocator::CachingAllocator(Device device) : device_(device) {
  const std::lock_guard lock(living().mutex);
  living().all.insert(this);
}

CachingAllocator::~CachingAllocator() {
  {
    const std::lock_guard lock(living().mutex);
    living().all.erase(this);
  }
  try {
    end_rest_locked(Rest::wait);
  } catch (const std::exception&) {  // a device that has failed reads nothing any more
  }
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
    // Free segments, each too small, may be what is missing, or blocks that wait for a stream.
    end_rest_locked(Rest::wait);
    release_cached_locked();
    try {
      take();
    } catch (const Error& e) {
      throw Error(detail::join(e.what(), "; ", device_, " holds ", stats_.live >> 20, " MiB live, ",
                               stats_.reserved >> 20, " MiB reserved, peak ", stats_.peak >> 20,
                               " MiB", largest_locked(),
                               ": use a smaller batch or patch, a smaller base, or recompute"));
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
  void* data = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!resting_.empty()) end_rest_locked(Rest::look);
    if (free_.lower_bound({size, nullptr}) == free_.end()) grow_locked(size);
    data = take_locked(size, bytes);
  }
  if (memory_poison()) poison(data, size);
  return data;
}

// The largest live ops, for the message of an allocation that failed.
std::string CachingAllocator::largest_locked() const {
  std::map<std::string, int64_t> by_name;  // one op may have several literals
  for (const auto& [op, live] : live_by_op_)
    if (live > 0) by_name[op] += live;
  std::vector<std::pair<int64_t, std::string>> ops;
  for (const auto& [op, live] : by_name) ops.emplace_back(live, op);
  std::sort(ops.rbegin(), ops.rend());
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(ops.size(), 4); ++i)
    text +=
        detail::join(i == 0 ? " (live: " : ", ", ops[i].second, " ", ops[i].first >> 20, " MiB");
  return text.empty() ? text : text + ")";
}

void CachingAllocator::poison(void* data, int64_t bytes) const {
  Backend& b = backend(device_.type);
  b.fill(current_stream(device_), data, DType::u8, 255.0, bytes);
}

void CachingAllocator::end_rest_locked(Rest rest) {
  for (size_t i = 0; i < resting_.size();) {
    auto& [data, events] = resting_[i];
    if (rest == Rest::wait)
      for (const Event& e : events) e.synchronize();
    else
      std::erase_if(events, [](const Event& e) { return e.done(); });
    if (rest == Rest::look && !events.empty()) {
      ++i;
      continue;
    }
    void* const rested = data;
    resting_.erase(resting_.begin() + static_cast<ptrdiff_t>(i));
    free_locked(rested);
  }
}

void CachingAllocator::free_after(void* data, std::vector<Event> events) noexcept {
  const std::lock_guard lock(mutex_);
  resting_.emplace_back(data, std::move(events));
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
  free_locked(pointer);
}

void CachingAllocator::free_locked(void* pointer) noexcept {
  auto it = blocks_.find(static_cast<char*>(pointer));
  if (it == blocks_.end() || it->second.requested == 0)
    return;  // not ours, or freed twice: Storage prevents both
  if (memory_poison()) {
    try {
      poison(it->first, it->second.size);
    } catch (const std::exception&) {  // a failed device: the next call that may throw says so
    }
  }
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

void CachingAllocator::hold_segments() {
  const std::lock_guard lock(mutex_);
  hold_ = true;
}

void CachingAllocator::release_cached_locked() {
  if (hold_) return;
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

MemoryStats memory_of(Device device) {
  MemoryStats sum;
  const std::lock_guard lock(living().mutex);
  for (const CachingAllocator* a : living().all) {
    if (!(a->device() == device)) continue;
    const MemoryStats s = a->stats();
    sum.live += s.live;
    sum.peak += s.peak;
    sum.reserved += s.reserved;
    sum.n_allocations += s.n_allocations;
    sum.n_backend_allocations += s.n_backend_allocations;
    for (const auto& [op, bytes] : s.by_op_at_peak) sum.by_op_at_peak[op] += bytes;
  }
  return sum;
}

void reset_memory_peaks(Device device) {
  const std::lock_guard lock(living().mutex);
  for (CachingAllocator* a : living().all)
    if (a->device() == device) a->reset_peak();
}

}  // namespace bora
