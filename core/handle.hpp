// SPDX-License-Identifier: Apache-2.0
// Handle: move-only owner of a C library's handle.
#pragma once

#include <utility>

namespace bora {

/// Owns a value of type T (a pointer or an integer id) and calls Destroy(value) once.  `Empty`
/// marks "owns nothing". Use: `using File = Handle<hid_t, &close_file, hid_t{-1}>;`
template <class T, auto Destroy, T Empty = T{}>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T value) : value_(value) {}
  Handle(Handle&& other) noexcept : value_(std::exchange(other.value_, Empty)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      value_ = std::exchange(other.value_, Empty);
    }
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { reset(); }

  T get() const { return value_; }
  explicit operator bool() const { return value_ != Empty; }
  void reset() noexcept {
    if (value_ != Empty) Destroy(std::exchange(value_, Empty));
  }

 private:
  T value_ = Empty;
};

}  // namespace bora
