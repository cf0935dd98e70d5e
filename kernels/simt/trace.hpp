// SPDX-License-Identifier: Apache-2.0
// A trace of what was issued to the emulated device, with who waits for whom.  Work runs here as it
// is issued, whatever its stream; the trace says in which orders a device may run it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace bora::simt {

/// How much is done at a point (a vector clock): pieces of work by stream.
using TraceClock = std::map<int64_t, int64_t>;

/// A piece of work that was issued.  Of a graph: its launch, as one piece.
struct TracedWork {
  std::string name;    ///< as in Counters::recent
  int64_t stream = 0;  ///< 0: the device's own; streams that were made: 1, 2, ...
  int64_t number = 0;  ///< among its stream's, from 1
  TraceClock before;   ///< what is done in any order that a device may choose, when this begins
  /// Of copies: what was read and written; `pageable`: the host's side is ordinary memory.
  const void* from = nullptr;
  const void* to = nullptr;
  int64_t bytes = 0;
  bool pageable = false;
};

/// Whether `then` begins after the end of `first` in any order that a device may choose: by their
/// stream, by events, or since the host waited in between.  Both are of one trace.
bool comes_before(const TracedWork& first, const TracedWork& then);
/// Whether a device may run both at once.
bool may_overlap(const TracedWork& a, const TracedWork& b);

/// Traces what all threads issue from now on.  Work of before is none of it.  Throws Error if it is
/// being traced already.
void begin_trace();
/// Ends it: the work in the order in which it was issued.  What is recorded into a capture is none:
/// it did not run.  The host is taken for one thread: what one has waited for, all know.
std::vector<TracedWork> end_trace();

namespace detail {

/// What an event knows.
struct TracedEvent {
  int64_t trace = 0;  ///< the number of the trace in which it was recorded; 0: none
  TraceClock done;
};

/// Does nothing unless a trace has begun.  Safe to call from several threads at once.
class Trace {
 public:
  void begin();
  std::vector<TracedWork> end();

  /// `work` with name, stream, and what it copies.
  void issue(TracedWork work);
  TracedEvent record(int64_t stream);
  void wait(int64_t stream, const TracedEvent& event);
  /// The host knows that all work of the stream, or all before the event, is done.
  void host_waits(int64_t stream);
  void host_waits(const TracedEvent& event);

 private:
  TraceClock& clock_of(int64_t stream);
  bool is_of_this(const TracedEvent& event) const { return on_ && event.trace == number_; }

  std::mutex mutex_;
  bool on_ = false;
  int64_t number_ = 0;
  std::map<int64_t, TraceClock> streams_;
  TraceClock host_;
  std::vector<TracedWork> work_;
};

}  // namespace detail

}  // namespace bora::simt
