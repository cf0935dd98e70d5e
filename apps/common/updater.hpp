// SPDX-License-Identifier: Apache-2.0
// Updater: what happens between the last backward of a window and the next forward.
#pragma once

#include <cstdint>

#include "comm/gradient_reducer.hpp"
#include "nn/optim/optimizer.hpp"
#include "nn/optim/schedule.hpp"
#include "nn/parameter_arena.hpp"

namespace bora::apps {

/// What one update did, for the log.
struct UpdateReport {
  int64_t update = 0;  ///< updates made, this one included
  double lr = 0;
  double gradient_norm = 0;  ///< over all parameters, before clipping
  double clip = 1;           ///< factor that clipping multiplied the gradients with
};

/// Reduces, measures, clips, steps: in this order.
class Updater {
 public:
  /// All outlive the updater.  max_norm 0: no clipping.
  Updater(nn::ParameterArena& arena, nn::Optimizer& optimizer, GradientReducer& reducer,
          nn::Schedule schedule, double max_norm);

  /// Forgets the gradients of the last window.  Call before its first backward.
  void begin_window();
  /// Collective.  Throws Error naming the first parameter if a gradient is NaN or inf: the
  /// parameters are then as they were before, on all ranks, since all see the same reduced
  /// gradients.
  UpdateReport finish_window();

  const nn::Schedule& schedule() const { return schedule_; }

 private:
  nn::ParameterArena& arena_;
  nn::Optimizer& optimizer_;
  GradientReducer& reducer_;
  nn::Schedule schedule_;
  double max_norm_;
};

}  // namespace bora::apps
