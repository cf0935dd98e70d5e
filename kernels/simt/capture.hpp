// SPDX-License-Identifier: Apache-2.0
// Streams, events and captures of the emulated device.  Work runs when it is issued; what is kept
// is who waited for whom, since capture needs it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/stream.hpp"
#include "kernels/simt/trace.hpp"

namespace bora::simt::detail {

struct EmulatedStream;

/// Work as it was issued.
struct GraphNode {
  std::string name;
  std::function<void()> work;
};
struct GraphWork {
  std::vector<GraphNode> nodes;
};

/// How much of each stream's captured work is done at a point: number of nodes by stream.
using Progress = std::map<const EmulatedStream*, int64_t>;

/// A capture that has begun.
struct Capture {
  EmulatedStream* origin = nullptr;
  std::vector<EmulatedStream*> streams;  ///< the origin and those that joined
  std::shared_ptr<GraphWork> work = std::make_shared<GraphWork>();
  std::string broken;  ///< why it cannot become a graph; empty: it can
};

struct EmulatedStream {
  Device device;
  bool urgent = false;
  std::shared_ptr<Capture> capture;  ///< nullptr: work runs
  int64_t issued = 0;                ///< nodes of this stream in the capture
  Progress seen;                     ///< what its next node comes behind
  int64_t id = 0;                    ///< TracedWork::stream
};

struct EmulatedEvent {
  std::weak_ptr<Capture> capture;  ///< recorded in it; empty and !captured: an ordinary event
  bool captured = false;
  Progress seen;
  TracedEvent traced;
};

/// Adds a node to the stream's capture.
void record_node(EmulatedStream& stream, std::string name, std::function<void()> work);
/// An event at this point of the stream.
std::shared_ptr<EmulatedEvent> record_event(EmulatedStream& stream);
/// The stream waits: it may join the event's capture so.  Throws Error for what CUDA refuses.
void wait_event(EmulatedStream& stream, const EmulatedEvent& event);
/// Throws, after noting in the capture that it is broken, as CUDA does.
[[noreturn]] void break_capture(Capture& capture, const std::string& why);
/// Throws if the thread is capturing: `what` stops or synchronises a device.
void forbid_in_capture(const char* what);

std::shared_ptr<Capture> begin_capture(EmulatedStream& stream);
/// Ends it in all its streams; throws Error with the reason if there is no graph to be had.
std::shared_ptr<GraphWork> end_capture(EmulatedStream& stream);

}  // namespace bora::simt::detail
