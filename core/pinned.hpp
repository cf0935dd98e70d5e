// SPDX-License-Identifier: Apache-2.0
// PinnedPool: host memory that a device copies from and to by itself, in blocks that are used again
// once the device is through with them.
#pragma once

#include <memory>

#include "core/tensor.hpp"

namespace bora {

/// Pinning memory costs milliseconds a call, so a pool takes few large slabs from the backend and
/// cuts them into blocks of sizes that are powers of two.  Slabs go back when the pool and all its
/// blocks are gone.  Thread-safe.  On a device without pinned memory of its own (the CPU) blocks
/// are ordinary memory.
class PinnedPool {
 public:
  struct Stats {
    int64_t slabs = 0;
    int64_t reserved = 0;  ///< bytes in slabs
    int64_t live = 0;      ///< bytes handed out now, rounded up to block sizes
    int64_t guarded = 0;   ///< bytes given back, but waiting for an event
  };
  /// slab_bytes: what is asked of the backend at a time; larger blocks get slabs of their own.
  explicit PinnedPool(Device device, int64_t slab_bytes = int64_t{16} << 20);

  /// A host tensor (on cpu()) in a block, at an address that is a multiple of 256.  The block goes
  /// back when the last tensor over it goes.  Throws Error if the backend has no more; there is no
  /// silent change to pageable memory.
  Tensor tensor(const Shape& shape, DType type);
  /// The block of `tensor`, one of this pool's, is not handed out again before `event` is done,
  /// even if all tensors over it have gone: for copies that are under way.  Several events: all.
  void guard(const Tensor& tensor, const Event& event);

  Device device() const;
  Stats stats() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// The pool of the process for `device`; never destroyed.
PinnedPool& pinned_pool(Device device);

}  // namespace bora
