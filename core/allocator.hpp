// SPDX-License-Identifier: Apache-2.0
// Allocators over a backend's raw memory: caching with split and merge, with peak and per-op
// accounting.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/device.hpp"
#include "core/stream.hpp"

namespace bora {

/// Figures of an allocator, in bytes.
struct MemoryStats {
  int64_t live = 0;      ///< handed out now
  int64_t peak = 0;      ///< largest `live` since the last reset_peak()
  int64_t reserved = 0;  ///< taken from the backend
  int64_t n_allocations = 0;
  int64_t n_backend_allocations = 0;
  /// live bytes by the op that asked for them, at the moment of the peak
  std::map<std::string, int64_t> by_op_at_peak;
};

class Allocator {
 public:
  virtual ~Allocator() = default;
  /// `bytes` > 0, aligned to 256.
  virtual void* allocate(int64_t bytes) = 0;
  virtual void free(void* data) noexcept = 0;
  /// The same, but the memory is not handed out again before all events are done: for memory that
  /// another stream may still be reading.
  virtual void free_after(void* data, std::vector<Event> events) noexcept = 0;
  virtual Device device() const = 0;
};

/// Keeps what it got from the backend and hands it out again: best fit, blocks split and merged
/// with free neighbours. Memory goes back to the backend only in the destructor, in
/// release_cached(), or when the backend has no more: then free segments are given back first.
/// Thread-safe.
///
/// A freed block is reused at once, without waiting for the device: temporaries live and die on one
/// stream, whose order keeps the next owner behind the last one.  Only persistent buffers cross
/// streams; whoever lets another stream read a temporary says so with Storage::record_use(), and
/// the block rests until that stream has passed.  set_memory_poison() makes violations show.
class CachingAllocator final : public Allocator {
 public:
  explicit CachingAllocator(Device device);
  ~CachingAllocator() override;
  void* allocate(int64_t bytes) override;
  void free(void* data) noexcept override;
  void free_after(void* data, std::vector<Event> events) noexcept override;
  Device device() const override { return device_; }

  MemoryStats stats() const;
  void reset_peak();
  /// Gives wholly free segments back to the backend.
  void release_cached();
  /// From now on no segment goes back before the destructor: captured work uses them.
  void hold_segments();

 private:
  struct Block {
    int64_t size = 0;       ///< bytes, a multiple of 256
    int64_t requested = 0;  ///< 0 when free
    int segment = 0;
    const char* op = nullptr;
  };
  void* take_locked(int64_t size, int64_t requested);
  void grow_locked(int64_t size);
  void release_cached_locked();
  void free_locked(void* data) noexcept;
  void poison(void* data, int64_t bytes) const;
  enum class Rest { look, wait };
  void end_rest_locked(Rest rest);
  std::string largest_locked() const;

  Device device_;
  mutable std::mutex mutex_;
  std::map<char*, Block> blocks_;             // by address
  std::set<std::pair<int64_t, char*>> free_;  // by size
  std::map<char*, int64_t> segments_;         // address -> bytes
  int n_segments_ = 0;
  bool hold_ = false;
  MemoryStats stats_;
  std::map<const char*, int64_t> live_by_op_;
  std::vector<std::pair<void*, std::vector<Event>>> resting_;  // freed, not reusable yet
};

/// The allocator that tensors on `device` use: one CachingAllocator a device, unless replaced.
Allocator& allocator(Device device);
/// The default caching allocator of `device`, for its figures.
CachingAllocator& caching_allocator(Device device);

/// While it lives, this thread's tensors on the pool's device come from `pool` instead.  Memory
/// goes back to where it came from whenever it is freed, and keeps the pool alive until then.  For
/// work that is captured and replayed: what a graph uses in between must be nobody else's.
class AllocationPoolScope {
 public:
  explicit AllocationPoolScope(std::shared_ptr<CachingAllocator> pool);
  ~AllocationPoolScope();
  AllocationPoolScope(const AllocationPoolScope&) = delete;
  AllocationPoolScope& operator=(const AllocationPoolScope&) = delete;
};
/// The innermost open scope's pool for `device`, or nullptr.
std::shared_ptr<CachingAllocator> allocation_pool(Device device);

/// Debug mode: memory is filled with 0xff bytes, which are NaN in every floating type, when it is
/// handed out and when it comes back.  A read of memory that was never written, or of a temporary
/// that has gone, gives NaN.  Off, unless the environment has BORA_DEBUG_MEMORY=1.
void set_memory_poison(bool on);
bool memory_poison();

/// Names the op on whose behalf this thread allocates, while it lives; `name` must outlive the
/// allocations (a literal).
class AllocationTag {
 public:
  explicit AllocationTag(const char* name);
  ~AllocationTag();
  AllocationTag(const AllocationTag&) = delete;
  AllocationTag& operator=(const AllocationTag&) = delete;

 private:
  const char* previous_;
};

}  // namespace bora
