// SPDX-License-Identifier: Apache-2.0
// Recent: the values that were asked for last, by name.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace bora::data {

/// At most `most` values; a further one drops the one that was not asked for longest.  May be used
/// from several threads; its mutex is held for no call of anybody else's.
template <class Value>
class Recent {
 public:
  explicit Recent(size_t most) : most_(most) {}

  std::shared_ptr<Value> find(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto at = by_name_.find(name);
    if (at == by_name_.end()) return nullptr;
    order_.splice(order_.begin(), order_, at->second);
    return at->second->second;
  }
  /// Keeps `value`; if another thread has put one there before, that one stays.  Returns what is
  /// kept.
  std::shared_ptr<Value> keep(const std::string& name, std::shared_ptr<Value> value) {
    std::shared_ptr<Value> dropped;  // ends after the lock
    const std::lock_guard lock(mutex_);
    if (const auto at = by_name_.find(name); at != by_name_.end()) return at->second->second;
    order_.emplace_front(name, value);
    by_name_[name] = order_.begin();
    if (order_.size() > most_) dropped = drop_last();
    return value;
  }
  /// Drops the one that was not asked for longest; false if there is none.
  bool drop_oldest() {
    std::shared_ptr<Value> dropped;
    const std::lock_guard lock(mutex_);
    if (order_.empty()) return false;
    dropped = drop_last();
    return true;
  }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return order_.size();
  }

 private:
  std::shared_ptr<Value> drop_last() {
    std::shared_ptr<Value> value = std::move(order_.back().second);
    by_name_.erase(order_.back().first);
    order_.pop_back();
    return value;
  }
  using Entry = std::pair<std::string, std::shared_ptr<Value>>;
  const size_t most_;
  mutable std::mutex mutex_;
  std::list<Entry> order_;  // the last one asked for first
  std::unordered_map<std::string, typename std::list<Entry>::iterator> by_name_;
};

}  // namespace bora::data
