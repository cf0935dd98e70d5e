// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: a value that one writes at a time and anybody reads, without waiting.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <type_traits>

namespace bora {

/// A sequence lock whose data are atomic words, so that it also works between processes; all zero
/// bytes are an unlocked, zero value.  `version` is odd while somebody writes.  The words are
/// stored with release and loaded with acquire, so that a reader who has seen a word of a later
/// writer also sees that writer's version.  (With fences the words could be relaxed, but
/// ThreadSanitizer does not know fences.)
template <class T>
class SeqLocked {
  static_assert(std::is_trivially_copyable_v<T>);
  static_assert(std::atomic<uint64_t>::is_always_lock_free, "must work between processes");

 public:
  /// Keeps other writers out; returns what unlock() wants.
  uint64_t lock() {
    uint64_t leave_with = 0;
    for (int looks = 0; !try_lock(leave_with); ++looks)
      if (looks > 100) std::this_thread::yield();
    return leave_with;
  }
  bool try_lock(uint64_t& leave_with) {
    uint64_t v = version_.load(std::memory_order_relaxed);
    if (v % 2 != 0 || !version_.compare_exchange_strong(v, v + 1, std::memory_order_acquire))
      return false;
    leave_with = v + 2;
    return true;
  }
  void unlock(uint64_t leave_with) { version_.store(leave_with, std::memory_order_release); }

  /// Only between lock() and unlock().  With `bytes`, the rest of the value stays.
  void store(const T& value, size_t bytes = sizeof(T)) {
    uint64_t raw[kWords];
    std::memcpy(raw, &value, bytes);
    if (bytes % 8 != 0) std::memset(reinterpret_cast<char*>(raw) + bytes, 0, 8 - bytes % 8);
    for (size_t i = 0; i < (bytes + 7) / 8; ++i) words_[i].store(raw[i], std::memory_order_release);
  }
  /// Only between lock() and unlock(): what is there.
  T load() const {
    uint64_t raw[kWords];
    for (size_t i = 0; i < kWords; ++i) raw[i] = words_[i].load(std::memory_order_acquire);
    T value;
    std::memcpy(static_cast<void*>(&value), raw, sizeof(T));
    return value;
  }

  /// A value as one writer left it.  False if none was to be had: a writer was stopped in the
  /// middle.
  bool read(T& value) const {
    return read(value, [] {});
  }
  /// The same, and `also()` loads (with acquire) atomics that writers store (with release) while
  /// they hold the lock, or after they have held it: what it loads is not older than the value.
  template <class Also>
  bool read(T& value, Also&& also) const {
    for (int looks = 0; looks < 1000; ++looks) {
      const uint64_t before = version_.load(std::memory_order_acquire);
      if (before % 2 == 0) {
        value = load();
        also();
        if (version_.load(std::memory_order_acquire) == before) return true;
      }
      std::this_thread::yield();
    }
    return false;
  }

 private:
  static constexpr size_t kWords = (sizeof(T) + 7) / 8;
  std::atomic<uint64_t> version_{0};
  std::array<std::atomic<uint64_t>, kWords> words_{};
};

}  // namespace bora
