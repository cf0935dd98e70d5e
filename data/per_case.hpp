// SPDX-License-Identifier: Apache-2.0
// PerCase: something about each case that is found when it is first wanted, and kept.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "core/error.hpp"

namespace bora::data {

/// Safe to use from several threads: who asks for a case while another thread is finding it waits
/// for that one; other cases are not held up.
template <class T>
class PerCase {
 public:
  explicit PerCase(int64_t n_cases)
      : size_(n_cases), slots_(new Slot[static_cast<size_t>(n_cases)]) {}

  /// `find()` makes it.  If it throws, nothing is kept and the next call tries again.  The result
  /// stays in place as long as this object lives.
  template <class Find>
  const T& get(int64_t index, Find&& find) const {
    BORA_CHECK(index >= 0 && index < size_, "PerCase: case ", index, " of ", size_);
    Slot& slot = slots_[static_cast<size_t>(index)];
    const std::lock_guard lock(slot.mutex);
    if (!slot.value) slot.value.emplace(find());
    return *slot.value;
  }

 private:
  struct Slot {
    std::mutex mutex;
    std::optional<T> value;
  };
  int64_t size_;
  std::unique_ptr<Slot[]> slots_;
};

}  // namespace bora::data
