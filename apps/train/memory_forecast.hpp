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

/// Extents of a sample.
struct Extents {
  int64_t d = 0, h = 0, w = 0;
  int64_t cells() const { return d * h * w; }
};

/// One forward and backward pass of a micro-step.
struct StepCost {
  Extents extents;
  int64_t samples = 0;
  int64_t bytes = 0;   ///< activations and scratch: the allocator's peak over what was there before
  double seconds = 0;  ///< the second of two passes
  int64_t cells() const { return samples * extents.cells(); }
};

/// The extents of passes to look at, smallest first, each of about twice as many cells as the one
/// before: from `smallest` along each axis (or less, where the sample has less) up to `full`.
std::vector<Extents> probe_extents(const Extents& full, int64_t smallest);

/// a + b cells through the largest measured pass and the one of about a quarter of its cells; the
/// measurement itself where `full` was reached.  Throws Error without measurements.
StepCost extrapolate(const std::vector<StepCost>& measured, const Extents& full, int64_t samples);

/// Runs forward and backward of `task` on the arena's device at growing extents, until the full
/// ones are reached or the next pass would take the total beyond `budget_s`.  The values are
/// `like`'s, repeated where it is smaller.  Collective over `ranks`, which all do the same passes.
/// The network's running statistics move; gradients are left in the arena.
std::vector<StepCost> measure_steps(Task& task, const RunConfig& config, Collective& ranks,
                                    nn::ParameterArena& arena, const data::Sample& like,
                                    const Extents& full, int64_t samples, double budget_s);

/// Bytes of a sample of these extents, all its tensors.
int64_t sample_bytes(const data::Sample& like, const Extents& extents);

}  // namespace bora::train
