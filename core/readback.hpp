// SPDX-License-Identifier: Apache-2.0
// DeviceReadback: small values on their way from a device to the host, without waiting for them.
#pragma once

#include <deque>
#include <optional>

#include "core/pinned.hpp"

namespace bora {

/// Losses, norms, flags: what the host wants to know of a step, some steps later.  push() starts a
/// copy to pinned memory behind the work issued so far; pop() gives values in the order of the
/// pushes, once they are there.  One thread.
class DeviceReadback {
 public:
  struct Item {
    int64_t ticket = 0;  ///< what push() returned
    Tensor values;       ///< on the host
  };

  explicit DeviceReadback(Device device) : device_(device), pool_(pinned_pool(device)) {}
  /// From a pool of one's own.
  DeviceReadback(Device device, PinnedPool pool) : device_(device), pool_(std::move(pool)) {}
  /// Waits for nothing: copies under way keep their memory.
  ~DeviceReadback() = default;

  /// Starts copying `x`, of any shape and type, on the device's current stream; `x` may be
  /// overwritten or freed by later work of that stream.  Returns 1, 2, 3, ...  Not inside a
  /// capture: push after the graph's launch.  Throws Error if x is on another device.
  int64_t push(const Tensor& x);
  /// The oldest value not popped yet if it has arrived, else nothing.  Never waits.
  std::optional<Item> pop();
  /// The oldest value not popped yet; waits for its copy.  Throws Error if nothing is under way.
  Item wait();
  /// Pushed, not popped.
  int64_t pending() const { return static_cast<int64_t>(items_.size()); }

 private:
  struct Pending {
    Item item;
    Event arrived;
  };
  Item take();

  Device device_;
  PinnedPool pool_;
  std::deque<Pending> items_;
  int64_t n_pushed_ = 0;
};

}  // namespace bora
