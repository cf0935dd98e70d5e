// SPDX-License-Identifier: Apache-2.0
// The emulated device, for those who test with it: the order of threads, what was issued, strict
// memory.  In a build with BORA_EMULATOR the device is there as cuda(0) before main() begins.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/stream.hpp"

namespace bora::simt {

/// The order in which the threads of a block take their turns, and blocks of a grid: a result that
/// depends on it is a missing barrier.
enum class ScheduleKind { forward, backward, shuffled };
struct Schedule {
  ScheduleKind kind = ScheduleKind::forward;
  uint64_t seed = 1;  ///< of `shuffled`
};

/// "forward", "backward", "shuffled" or "shuffled:<seed>"; throws UsageError for other text.
Schedule schedule_from(const std::string& text);
/// The schedule of launches from now on.  At first that of BORA_EMULATOR_SCHEDULE, else forward.
Schedule schedule();
void set_schedule(Schedule schedule);

/// A schedule while it lives.
class ScheduleScope {
 public:
  explicit ScheduleScope(Schedule s) : before_(schedule()) { set_schedule(s); }
  ~ScheduleScope() { set_schedule(before_); }
  ScheduleScope(const ScheduleScope&) = delete;
  ScheduleScope& operator=(const ScheduleScope&) = delete;

 private:
  Schedule before_;
};

/// Puts the emulated device in place as the backend of DeviceType::cuda unless there is one.  Done
/// before main() in programs that launch kernels; harmless when called again.
void install();

/// What was issued to the device since the last reset_counters(), by all threads.
struct Counters {
  int64_t launches = 0;          ///< kernels, and convolutions (which are libraries' on a device)
  int64_t captured = 0;          ///< of all kinds of work: those written down, not run
  int64_t graph_launches = 0;    ///< one each, whatever is in the graph
  int64_t synchronizations = 0;  ///< the host waited for a stream or an event
  int64_t event_queries = 0;     ///< the host asked whether an event is done
  int64_t host_to_device = 0, device_to_host = 0, device_to_device = 0;
  int64_t pageable_copies = 0;  ///< those of the above with ordinary host memory: the host waits
  int64_t element_calls = 0;    ///< fill, cast, accumulate
  int64_t event_records = 0, event_waits = 0;
  int64_t allocations = 0;  ///< from the backend, which on a device stops everything
  /// Names of the last work issued, oldest first, at most 1024: of launches, and "copy h2d", "copy
  /// d2h", "copy d2d", "fill", "cast", "accumulate", "graph", "synchronize".
  std::vector<std::string> recent;
};
Counters counters();
void reset_counters();

/// Strict memory: the host may touch device memory only inside launches and backend calls; a
/// program that does it elsewhere ends with a message that says so.  At first on where
/// BORA_EMULATOR_STRICT=1.
void set_strict(bool on);
bool strict();
/// Whether `p` points into the memory of the emulated device.
bool is_device_memory(const void* p);

/// Work of a library on the stream (a convolution): runs at once or is recorded, with device memory
/// open to it.  Counted as a launch.
void issue_library_work(const char* what, Stream stream, std::function<void()> work);

}  // namespace bora::simt

namespace bora::simt::detail {
// Every program that launches kernels has this.
inline const bool installed = (install(), true);
}  // namespace bora::simt::detail
