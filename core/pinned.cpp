// SPDX-License-Identifier: Apache-2.0
#include "core/pinned.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <vector>

#include "core/backend.hpp"
#include "core/error.hpp"

namespace bora {

struct PinnedPool::State {
  struct Block {
    int64_t bytes = 0;
    std::vector<Event> guards;  // not to be used again before these
  };

  State(Device d, int64_t slab) : device(d), slab_bytes(slab) {}
  ~State() {
    // Copies may still be under way into blocks that were given back.
    try {
      for (auto& [data, block] : waiting)
        for (const Event& e : block.guards) e.synchronize();
    } catch (const std::exception&) {  // a device that has failed copies nothing any more
    }
    for (auto& [data, bytes] : slabs) backend(device.type).free_pinned(data, bytes);
  }

  void collect() {
    for (auto it = waiting.begin(); it != waiting.end();) {
      auto& guards = it->second.guards;
      std::erase_if(guards, [](const Event& e) { return e.done(); });
      if (!guards.empty()) {
        ++it;
        continue;
      }
      guarded -= it->second.bytes;
      free[it->second.bytes].push_back(it->first);
      it = waiting.erase(it);
    }
  }

  char* take(int64_t bytes) {
    if (!waiting.empty()) collect();
    auto& list = free[bytes];
    char* data = nullptr;
    if (!list.empty()) {
      data = list.back();
      list.pop_back();
    } else {
      if (rest < bytes) {
        const int64_t slab = std::max(bytes, slab_bytes);
        char* fresh = static_cast<char*>(backend(device.type).allocate_pinned(slab));
        slabs.emplace_back(fresh, slab);
        reserved += slab;
        if (slab - bytes >= rest) {  // what remains of the older slab is cut up no further
          cursor = fresh;
          rest = slab;
        } else {
          blocks[fresh] = Block{bytes, {}};
          live += bytes;
          return fresh;
        }
      }
      data = cursor;
      cursor += bytes;
      rest -= bytes;
    }
    blocks[data] = Block{bytes, {}};
    live += bytes;
    return data;
  }

  void give_back(char* data) {
    const auto it = blocks.find(data);
    Block block = std::move(it->second);
    blocks.erase(it);
    live -= block.bytes;
    if (block.guards.empty()) {
      free[block.bytes].push_back(data);
    } else {
      guarded += block.bytes;
      waiting.emplace(data, std::move(block));
    }
  }

  const Device device;
  const int64_t slab_bytes;
  std::mutex mutex;
  std::vector<std::pair<char*, int64_t>> slabs;
  char* cursor = nullptr;  // the uncut rest of a slab
  int64_t rest = 0;
  std::map<int64_t, std::vector<char*>> free;  // by size
  std::map<char*, Block> blocks;               // handed out
  std::map<char*, Block> waiting;              // given back, guarded
  int64_t reserved = 0, live = 0, guarded = 0;
};

PinnedPool::PinnedPool(Device device, int64_t slab_bytes) {
  BORA_CHECK(slab_bytes > 0, "PinnedPool: slabs of ", slab_bytes, " bytes");
  state_ = std::make_shared<State>(device, slab_bytes);
}

Tensor PinnedPool::tensor(const Shape& shape, DType type) {
  const int64_t bytes = shape.numel() * size_of(type);
  if (bytes == 0) return Tensor::empty(shape, type);
  const auto rounded =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(bytes, 256))));
  const std::lock_guard lock(state_->mutex);
  char* data = state_->take(rounded);
  return Tensor::wrap(data, shape, type, cpu(), [state = state_, data] {
    const std::lock_guard guard(state->mutex);
    state->give_back(data);
  });
}

void PinnedPool::guard(const Tensor& tensor, const Event& event) {
  if (tensor.numel() == 0) return;
  const std::lock_guard lock(state_->mutex);
  const auto it = state_->blocks.find(static_cast<char*>(tensor.storage()->data()));
  BORA_CHECK(it != state_->blocks.end(), "PinnedPool::guard: the tensor ", tensor.shape(),
             " does not lie in a block of this pool");
  it->second.guards.push_back(event);
}

Device PinnedPool::device() const { return state_->device; }

PinnedPool::Stats PinnedPool::stats() const {
  const std::lock_guard lock(state_->mutex);
  state_->collect();
  return {static_cast<int64_t>(state_->slabs.size()), state_->reserved, state_->live,
          state_->guarded};
}

PinnedPool& pinned_pool(Device device) {
  static auto* mutex = new std::mutex();
  static auto* pools = new std::map<std::pair<int, int>, PinnedPool*>();
  const std::lock_guard lock(*mutex);
  PinnedPool*& slot = (*pools)[{static_cast<int>(device.type), device.index}];
  if (slot == nullptr) slot = new PinnedPool(device);
  return *slot;
}

}  // namespace bora
