// SPDX-License-Identifier: Apache-2.0
// What a training run will take of memory and time, before it takes it.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/common/window_plan.hpp"
#include "apps/train/config.hpp"
#include "apps/train/task.hpp"
#include "nn/parameter_arena.hpp"

namespace bora::train {

/// Bytes that a rank holds whatever its samples: pure arithmetic on the network's shapes, nothing
/// is allocated.
struct StateBytes {
  int64_t weights = 0, gradients = 0;
  int64_t optimizer = 0;  ///< its moments
  int64_t average = 0;    ///< train.ema
  int64_t halves = 0;     ///< 16-bit copies of the weights (precision)
  int64_t exchange = 0;   ///< what ranks' gradients are joined in (comm.*)
  int64_t buffers = 0;    ///< running statistics
  int64_t total() const {
    return weights + gradients + optimizer + average + halves + exchange + buffers;
  }
  /// Tensors of a checkpoint: the size of its file but for some kilobytes, and of the copy that
  /// rank 0 makes to write it.
  int64_t checkpoint() const { return weights + optimizer + average + buffers; }
};
StateBytes state_bytes(nn::Module& model, const RunConfig& config, const apps::WindowPlan& plan,
                       int n_ranks);

/// One forward and backward pass of a micro-step.
struct StepCost {
  Dims3 extents;
  int64_t samples = 0;
  int64_t bytes = 0;   ///< activations and scratch: the allocator's peak over what was there before
  int64_t kept = 0;    ///< of them what forward keeps for backward
  double seconds = 0;  ///< the second of two passes
  int64_t cells() const { return samples * extents.count(); }
};

/// The extents of passes to look at, smallest first, each of about twice as many cells as the one
/// before: from `smallest` along each axis (or less, where the sample has less) up to `full`.
std::vector<Dims3> probe_extents(const Dims3& full, int64_t smallest);

/// Of passes over so many cells: the line in cells through the two largest passes; at least what
/// forward keeps, in proportion, with the scratch of the largest pass.  (Where small volumes meet
/// many weights, scratch for these is all there is to see, and the line too flat.)  The measurement
/// itself where `full` was reached.  Time: a line, too.  Throws Error without measurements.
StepCost extrapolate(const std::vector<StepCost>& measured, const Dims3& full, int64_t samples);

/// How far measure_steps() goes.
struct ProbeLimits {
  int64_t least_cells = 16384;  ///< of a micro-step: reached whatever the time
  /// Beyond them it goes on until memory grows with the cells, within 5 %, but begins no pass that
  /// would make it longer than this.
  double budget_s = 5;
};
/// Whether memory grew with the cells in the last of these passes, within 5 %.
bool grows_with_cells(const std::vector<StepCost>& measured);

/// Runs forward and backward of `task` on the arena's device at growing extents, until the full
/// ones or the limits are reached.  The values are
/// `like`'s, repeated where it is smaller.  Collective over `ranks`, which all do the same passes.
/// The network's running statistics move; gradients are left in the arena.
std::vector<StepCost> measure_steps(Task& task, const RunConfig& config, Collective& ranks,
                                    nn::ParameterArena& arena, const data::Sample& like,
                                    const Dims3& full, int64_t samples, const ProbeLimits& limits);

/// Bytes of a sample (data/dataset.hpp) of these extents, all its tensors.
int64_t sample_bytes(int64_t n_channels, const Dims3& extents);

}  // namespace bora::train
