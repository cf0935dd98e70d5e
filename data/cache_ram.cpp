// SPDX-License-Identifier: Apache-2.0
// The store of kind = ram: tensors of this process.
#include <atomic>
#include <utility>

#include "core/error.hpp"
#include "data/cache_store.hpp"

namespace bora::data {
namespace {

class RamStore final : public CacheStore {
 public:
  RamStore(std::vector<int64_t> bytes, int64_t limit)
      : bytes_(std::move(bytes)), limit_(limit), slots_(bytes_.size()) {}

  bool read(size_t field, const CacheBox& box, void* to) override {
    const Slot& slot = slots_[field];
    if (slot.state.load(std::memory_order_acquire) != State::kept) return false;
    copy_box(slot.whole.raw(), box, to);
    return true;
  }
  bool claim(size_t field) override {
    State open = State::open;
    if (!slots_[field].state.compare_exchange_strong(open, State::taken)) return false;
    if (used_.fetch_add(bytes_[field]) + bytes_[field] <= limit_) return true;
    used_ -= bytes_[field];
    slots_[field].state = State::open;  // another field's reading may fail and leave room
    return false;
  }
  void put(size_t field, const Tensor& whole) override {
    slots_[field].whole = whole;
    slots_[field].state.store(State::kept, std::memory_order_release);
  }
  void drop(size_t field) noexcept override {
    used_ -= bytes_[field];
    slots_[field].state = State::refused;
  }
  int64_t bytes() const override { return used_; }
  std::string where() const override { return "of each rank"; }

 private:
  enum class State { open, taken, kept, refused };
  struct Slot {
    std::atomic<State> state{State::open};
    Tensor whole;  // written by who has taken it, read by all once it is kept
  };

  const std::vector<int64_t> bytes_;
  const int64_t limit_;
  std::vector<Slot> slots_;
  std::atomic<int64_t> used_{0};
};

}  // namespace

std::unique_ptr<CacheStore> make_ram_store(std::vector<int64_t> bytes, int64_t limit) {
  return std::make_unique<RamStore>(std::move(bytes), limit);
}

}  // namespace bora::data
