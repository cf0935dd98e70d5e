// SPDX-License-Identifier: Apache-2.0
// Stream and Event: ordering of work on a device.  On the CPU all work is done when a call returns,
// so they are no-ops that count.
#pragma once

#include <cstdint>
#include <memory>

#include "core/device.hpp"

namespace bora {

/// A point in a stream's work.  Copies share it.  A default Event is done.
class Event {
 public:
  Event() = default;
  Event(Device device, std::shared_ptr<void> native)
      : device_(device), native_(std::move(native)) {}
  bool done() const;
  void synchronize() const;
  Device device() const { return device_; }
  void* native() const { return native_.get(); }

 private:
  Device device_;
  std::shared_ptr<void> native_;
};

/// Work that was captured from a stream, to be launched as one.  Copies share it.
class Graph {
 public:
  Graph() = default;
  Graph(Device device, std::shared_ptr<void> native)
      : device_(device), native_(std::move(native)) {}
  bool defined() const { return native_ != nullptr; }
  Device device() const { return device_; }
  void* native() const { return native_.get(); }

 private:
  Device device_;
  std::shared_ptr<void> native_;
};

/// A queue of work on a device; a value, the backend owns what is behind `native`.
struct Stream {
  Device device;
  void* native = nullptr;

  /// Marks the work issued so far.
  Event record() const;
  /// Later work on this stream starts only after `event`.  Does not block the host.
  void wait(const Event& event) const;
  /// Blocks the host until the work issued so far is done.
  void synchronize() const;
};

/// The thread's current stream on `device` (the default stream unless a StreamScope is open).
Stream current_stream(Device device);

/// Makes `stream` the thread's current one for its device while it lives.  Scopes end in reverse
/// order.
class StreamScope {
 public:
  explicit StreamScope(Stream stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;
};

/// Calls made on CPU streams so far, by kind; for tests of ordering and of "no synchronisation in
/// the step".
struct StreamCounters {
  int64_t records = 0, waits = 0, synchronizes = 0;
};
StreamCounters cpu_stream_counters();

}  // namespace bora
