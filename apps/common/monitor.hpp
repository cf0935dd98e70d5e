// SPDX-License-Identifier: Apache-2.0
// Monitor: what the latest steps took, on this rank and over the job.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/collective.hpp"

namespace bora::apps {

/// Sums over the last steps of one rank.
struct StepWindow {
  int64_t steps = 0;
  double samples = 0;
  double seconds = 0;      ///< inside steps
  double data_wait_s = 0;  ///< of these: waiting for samples
  double comm_wait_s = 0;  ///< of these: waiting for reductions that backward did not hide
  double longest_s = 0;    ///< the longest step
  /// What the rank itself needed, without waiting for others; 0 without steps.
  double own_s_a_step() const;
};

/// Keeps the last `window` steps.  A step is begun, told about its waits, and ended; times come
/// from a monotonic clock.  Costs two clock reads a step and no communication.  Work that goes on
/// beside the host (a GPU) must have ended, or been waited for, where the step ends.
class Monitor {
 public:
  using Clock = std::function<double()>;
  /// Throws Error unless window > 0.
  explicit Monitor(int window = 50, Clock clock = {});
  /// Throws Error inside a step.
  void begin_step();
  /// Seconds of the step under way; negative ones are an Error.
  void add_data_wait(double seconds);
  void add_comm_wait(double seconds);
  /// Throws Error without begin_step().
  void end_step(double samples);
  /// Leaves the step under way out, as after a failure or a stop.
  void abandon_step() { in_step_ = false; }

  /// Of the steps kept; all zero when there are none.
  StepWindow window() const;
  void clear();

 private:
  struct Step {
    double seconds, samples, data_wait_s, comm_wait_s;
  };
  Clock clock_;
  std::vector<Step> ring_;
  size_t next_ = 0, held_ = 0;
  bool in_step_ = false;
  double begin_s_ = 0;
  Step current_{};
};

/// The windows of all ranks together.
struct JobWindow {
  double samples_per_s = 0;    ///< sum over ranks; 0 without steps
  double step_s = 0;           ///< mean of the slowest rank's steps
  double data_wait_share = 0;  ///< of the step's time, largest of all ranks
  double comm_wait_share = 0;  ///< of the step's time, smallest of all ranks: what nobody caused by
                               ///< being late
  int slowest = 0;             ///< the rank that itself needs most, and how much
  double slowest_own_s = 0;
  double median_own_s = 0;
  /// Whether the slowest rank needs more than 1.15 times the median, and at least a millisecond
  /// more: the others wait for it.  What the scheduler takes from a shorter step is no rank's
  /// fault.
  bool straggler() const {
    constexpr double kLeast_s = 1e-3;
    return slowest_own_s > 1.15 * median_own_s && slowest_own_s - median_own_s > kLeast_s &&
           median_own_s > 0;
  }
};
/// When to name a straggler: as it begins, not again while it lasts.  It ends when the rank needs
/// less than 1.05 times the median, so that one at the threshold is not named again and again.
class StragglerWatch {
 public:
  /// The rank that is a straggler from this window on; nothing if none is, or it was named.
  std::optional<int> begins(const JobWindow& job);

 private:
  int named_ = -1;
};

/// Pure: of all ranks' windows, in rank order.
JobWindow join_windows(const std::vector<StepWindow>& ranks);
/// Collective: one gather of a few numbers.
JobWindow job_window(const StepWindow& mine, Collective& ranks);

}  // namespace bora::apps
