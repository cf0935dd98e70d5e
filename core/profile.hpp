// SPDX-License-Identifier: Apache-2.0
// Profile: wall time and work by range name, collected when asked for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bora {

/// Time spent between construction and destruction is added under `name` (a string that outlives
/// the program's ranges: a literal), while profiling is on.  Costs one branch when off.  Ranges
/// nest: `self_s` excludes inner ranges.
class ScopedRange {
 public:
  explicit ScopedRange(const char* name);
  ~ScopedRange();
  ScopedRange(const ScopedRange&) = delete;
  ScopedRange& operator=(const ScopedRange&) = delete;

 private:
  friend void profile_add_work(double flops, double bytes);
  const char* name_ = nullptr;
  int64_t start_ns_ = 0;
  ScopedRange* outer_ = nullptr;
  int64_t inner_ns_ = 0;
  double flops_ = 0, bytes_ = 0;
};

/// Says that the innermost range of this thread does `flops` floating-point operations and moves
/// `bytes` of operands, so that its time can be held against what the machine can do.  Adds up over
/// calls.  Outside a range, or with profiling off, nothing happens.
void profile_add_work(double flops, double bytes);

struct RangeTotal {
  std::string name;
  int64_t count = 0;
  double total_s = 0;
  double self_s = 0;
  double flops = 0;  ///< said by profile_add_work, without those of inner ranges
  double bytes = 0;
};

/// Switches collection on or off for this thread, and forgets what was collected.
void profile_enable(bool on);
bool profile_enabled();
/// What this thread collected, largest self time first.
std::vector<RangeTotal> profile_totals();

/// Monotonic seconds.
double now_s();

}  // namespace bora
