// SPDX-License-Identifier: Apache-2.0
// Storage: refcounted bytes, the device they are on, and who gets them back.
#pragma once

#include <functional>
#include <memory>

#include "core/device.hpp"

namespace bora {

/// Owns bytes; held by shared_ptr from tensors.
class Storage {
 public:
  /// From the device's allocator.  bytes may be 0 (data() is then nullptr).
  Storage(int64_t bytes, Device device);
  /// Around memory of somebody else; `release` (may be empty) runs when the last tensor goes.
  Storage(void* data, int64_t bytes, Device device, std::function<void()> release);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
  Device device_;
  bool owned_ = false;
  std::function<void()> release_;
};

}  // namespace bora
