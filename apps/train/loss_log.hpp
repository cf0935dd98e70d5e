// SPDX-License-Identifier: Apache-2.0
// LossLog: the losses of micro-steps, from where they are computed to the lines of the log.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/ordered_sums.hpp"
#include "apps/train/task.hpp"
#include "core/readback.hpp"

namespace bora::train {

/// Losses that are not finite count neither as values nor in the number of samples.
///
/// On the CPU a loss is read when it is noted.  On a device nothing waits: the parts of a window's
/// losses are kept in a row each, which end_window() starts to copy to the host, and reduce() reads
/// those of windows whose report has arrived.
class LossLog {
 public:
  /// max_steps: micro-steps a window has at most.
  LossLog(std::vector<std::string> names, Device device, int64_t max_steps);

  /// On a device: keeps the parts of micro-step `step` (from 0) of the window under way.  May be
  /// captured into a graph.  Nothing on the CPU.
  void keep(int64_t step, const Loss& loss);
  /// The same micro-step for the host: the loss is a mean over `weight` samples (0: it does not
  /// count), `place` is its own in the order in which ranks and micro-steps are summed.  Returns
  /// whether all parts are finite, as far as that is known without waiting: true on a device.
  bool note(int64_t place, double weight, const Loss& loss);
  /// Ends window number `window`; numbers grow.  Not inside a capture.
  void end_window(int64_t window);

  /// Collective over `ranks` (host memory): the sums over all ranks of what was noted since the
  /// last time in windows up to `window`, for whose losses it waits.
  MetricSums reduce(Collective& ranks, int64_t window, const std::string& label);

 private:
  struct Step {
    int64_t place;
    double weight;
  };
  struct Window {
    int64_t number;
    std::vector<Step> steps;
  };
  bool add(const Step& step, const std::vector<double>& parts);

  size_t n_parts_;
  apps::OrderedSums sums_;
  // On a device.
  Tensor rows_;              // (max_steps, parts) f32
  std::vector<Step> steps_;  // of the window under way
  std::deque<Window> windows_;
  std::optional<DeviceReadback> readback_;
};

}  // namespace bora::train
