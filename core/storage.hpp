// SPDX-License-Identifier: Apache-2.0
// Storage: refcounted bytes, the device they are on, and who gets them back.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/device.hpp"
#include "core/stream.hpp"

namespace bora {

class CachingAllocator;

/// Owns bytes; held by shared_ptr from tensors.
class Storage {
 public:
  /// From the device's allocator, or the open AllocationPoolScope's.  bytes may be 0 (data() is
  /// then nullptr).
  Storage(int64_t bytes, Device device);
  /// Around memory of somebody else; `release` (may be empty) runs when the last tensor goes.
  Storage(void* data, int64_t bytes, Device device, std::function<void()> release);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  /// Work issued to `stream` uses the bytes, which were allocated for another stream's work: when
  /// the last tensor goes, they are not handed out again before `stream` has passed the work issued
  /// to it until then.  The stream must live as long.  Memory of somebody else is their business.
  void record_use(Stream stream);

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
  Device device_;
  bool owned_ = false;
  std::function<void()> release_;
  std::shared_ptr<CachingAllocator> pool_;  // where it came from, if not the device's allocator
  std::vector<Stream> uses_;
};

}  // namespace bora
