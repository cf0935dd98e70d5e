// SPDX-License-Identifier: Apache-2.0
// The stack of a fiber, with a page below it that nobody may touch.
#pragma once

#include <cstddef>
#include <utility>

namespace bora::simt::detail {

class Stack {
 public:
  Stack() = default;
  /// Throws Error when there is no memory.  Stacks with different `number` begin in different cache
  /// lines of a page: else a thousand fibers would all want the same few.
  explicit Stack(size_t number);
  Stack(Stack&& other) noexcept { *this = std::move(other); }
  Stack& operator=(Stack&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Stack();
  void* bottom() const;
  size_t bytes() const { return bytes_; }

 private:
  void* memory_ = nullptr;  // with the guard page
  size_t bytes_ = 0;        // that a fiber may use
};

}  // namespace bora::simt::detail
