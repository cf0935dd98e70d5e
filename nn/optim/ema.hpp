// SPDX-License-Identifier: Apache-2.0
// Ema: an exponential moving average of all weights, beside the weights themselves.
#pragma once

#include <cstdint>

#include "core/flat_buffer.hpp"
#include "core/state.hpp"
#include "nn/module.hpp"
#include "nn/parameter_arena.hpp"

namespace bora::nn {

/// average += (1 - d) (weights - average) after each update, d = min(decay, (1 + n) / (10 + n)) at
/// the n-th update since the average began.  One f32 buffer of the arena's size, on its device; one
/// pass over it an update.  Source: Polyak and Juditsky 1992, with the warm-up that TensorFlow made
/// common.
///
/// Only parameters are averaged.  Buffers (running statistics of batch norms) are averages over
/// updates already, and are used as they are.
class Ema {
 public:
  /// Begins with the weights as they are.  The arena outlives it; its weights are f32.  Throws
  /// Error unless 0 < decay < 1.
  Ema(ParameterArena& arena, double decay);

  /// Begins anew: the average is the weights as they are now, after `updates` updates.
  void begin(int64_t updates);
  /// The step that follows an update, the weights being those after `updates` updates in all.  Not
  /// to be called for an update that was skipped.
  void update(int64_t updates);
  /// The same without the host: number of updates and whether to skip come from `scalars`
  /// (kStepScalars) f64 of kernels::step_scalars, on the arena's device.  May be captured.
  void update_from(const Tensor& scalars);

  double decay() const { return decay_; }
  int64_t begun_after() const { return begin_; }
  const FlatBuffer& average() const { return average_; }

  /// While it lives the arena holds the average, its half copies too, and the Ema the weights: for
  /// validation.  Both change places without further memory, and back with the same bits.
  class Use {
   public:
    explicit Use(Ema& ema);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Ema& ema_;
  };

  /// Entries of a checkpoint: "ema_begin", and "ema.<parameter>" for each parameter of `module`,
  /// the arena's.  Throws Error during a Use: the weights would be saved as the average.
  void state(StateVisitor& visitor, Module& module);

 private:
  void swap();

  ParameterArena& arena_;
  double decay_;
  FlatBuffer average_;
  Tensor share_;  // () f32
  int64_t begin_ = 0;
  bool in_use_ = false;
};

}  // namespace bora::nn
