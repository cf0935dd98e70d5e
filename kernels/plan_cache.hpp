// SPDX-License-Identifier: Apache-2.0
// PlanCache: plans that cost milliseconds to make, kept by a plain key; the longest unused is
// dropped when there are too many.
#pragma once

#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>

namespace bora::kernels {

/// `Key` is a struct of integers without padding: its bytes are the key.  Thread-safe; a plan is
/// immutable and stays alive while somebody holds it, also after it was dropped here.
template <class Key, class Plan>
class PlanCache {
  static_assert(std::is_trivially_copyable_v<Key> && std::has_unique_object_representations_v<Key>,
                "equal keys must have equal bytes");

 public:
  explicit PlanCache(size_t capacity) : capacity_(capacity) {}

  /// The plan of `key`, made by make() -> Plan if it is not there.  What make throws passes
  /// through, and nothing is kept.
  template <class Make>
  std::shared_ptr<const Plan> find_or_make(const Key& key, Make&& make) {
    const std::lock_guard lock(mutex_);  // held while making: two threads never make the same plan
    if (const auto found = index_.find(key); found != index_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return found->second->second;
    }
    auto plan = std::make_shared<const Plan>(make());
    order_.emplace_front(key, plan);
    index_[key] = order_.begin();
    if (order_.size() > capacity_) {
      index_.erase(order_.back().first);
      order_.pop_back();
    }
    return plan;
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return order_.size();
  }

 private:
  struct Hash {
    size_t operator()(const Key& key) const {
      return std::hash<std::string_view>{}({reinterpret_cast<const char*>(&key), sizeof(Key)});
    }
  };
  struct Equal {
    bool operator()(const Key& a, const Key& b) const {
      return std::memcmp(&a, &b, sizeof(Key)) == 0;
    }
  };
  using Entry = std::pair<Key, std::shared_ptr<const Plan>>;

  size_t capacity_;
  mutable std::mutex mutex_;
  std::list<Entry> order_;  // most recently used first
  std::unordered_map<Key, typename std::list<Entry>::iterator, Hash, Equal> index_;
};

}  // namespace bora::kernels
