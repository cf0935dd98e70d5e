// SPDX-License-Identifier: Apache-2.0
// RunAverage: the average of the weights (train.ema) in the life of a run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/state.hpp"
#include "nn/optim/ema.hpp"

namespace bora::train {

/// Off (decay 0), or an nn::Ema that begins with the run, or where a run that had none is resumed.
/// In a checkpoint: "ema_begin" and "ema.<parameter>", beside "model.<parameter>".  Validation, and
/// with it `best`, is of the average; running statistics of batch norms are the run's own.
class RunAverage {
 public:
  RunAverage(double decay, nn::ParameterArena& arena, nn::Module& module);

  bool on() const { return ema_.has_value(); }
  /// nullptr where it is off.
  nn::Ema* ema() { return ema_ ? &*ema_ : nullptr; }

  /// Whether the checkpoint that state() is about to load has an average.
  void expect(bool in_file) { in_file_ = in_file; }
  /// Saves or loads it.  An average of the file that is not wanted any more is read and dropped.
  void state(StateVisitor& visitor);
  /// When weights and number of updates are those that the run goes on with, the same on all ranks:
  /// an average that no checkpoint gave begins with them.  `say`: whether this rank logs what
  /// became of the checkpoint's.
  void settle(int64_t updates, bool resumed, bool say);

  /// While the result lives the arena holds the average; nullptr where it is off.
  std::unique_ptr<nn::Ema::Use> use();

 private:
  nn::ParameterArena& arena_;
  nn::Module& module_;
  std::optional<nn::Ema> ema_;
  bool in_file_ = false;
};

}  // namespace bora::train
