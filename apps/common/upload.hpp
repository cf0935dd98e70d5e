// SPDX-License-Identifier: Apache-2.0
// Uploader: the way of batches from the host to a device, beside the computation.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/tensor.hpp"

namespace bora::apps {

/// Carries lists of tensors to a device:
///   send(host tensors)   into pinned memory, and from there over a stream of its own;
///   take()               what was sent, for the current stream of the device.
/// While the device computes with what take() gave, the next list may be on its way: one at a time.
/// Nothing here waits for the device, but send() for the end of the copy before the last.
///
/// take() gives tensors in one fixed place, where lists of the same shapes lie at the same
/// addresses (a captured graph reads them there); they are overwritten by the next take(), in
/// stream order.
class Uploader {
 public:
  explicit Uploader(Device device);
  ~Uploader();
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  /// Copies what the tensors hold now; they may go afterwards.  Throws Error if a list is under way
  /// already, or if a tensor is undefined or not on the host.
  void send(const std::vector<Tensor>& tensors);
  /// Throws Error without a send() before it.
  std::vector<Tensor> take();
  /// Forgets the list under way, if there is one.
  void drop() { sent_ = false; }
  bool sent() const { return sent_; }

 private:
  struct Part {
    Shape shape;
    DType type;
    int64_t offset;
  };
  struct Pinned {
    void* data = nullptr;
    int64_t bytes = 0;
    Event copied;
  };
  void reserve(int64_t bytes);
  void reserve(Pinned& pinned, int64_t bytes) const;

  Device device_;
  Stream copy_stream_;
  std::array<Pinned, 2> pinned_{};
  size_t next_pinned_ = 0;
  Tensor staging_, fixed_;  // (bytes) u8 on the device
  Event arrived_;           // in staging_
  Event staging_free_;      // its last list has been taken
  std::vector<Part> parts_;
  int64_t bytes_ = 0;
  bool sent_ = false;
};

}  // namespace bora::apps
