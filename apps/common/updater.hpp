// SPDX-License-Identifier: Apache-2.0
// Updater: what happens between the last backward of a window and the next forward.
#pragma once

#include <cstdint>
#include <string>

#include "comm/gradient_exchange.hpp"
#include "nn/amp/grad_scaler.hpp"
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
  bool skipped = false;   ///< gradients overflowed: nothing was updated, `update` is the last one
  double loss_scale = 1;  ///< that the gradients were computed with
};

/// Reduces, unscales, counts what is not finite, measures, clips, steps unless something
/// overflowed, moves the loss scale: in this order.
class Updater {
 public:
  /// All outlive the updater.  max_norm 0: no clipping.  scaler: the loss scale, or nullptr where
  /// the loss is not scaled.
  Updater(nn::ParameterArena& arena, nn::Optimizer& optimizer, GradientExchange& exchange,
          nn::Schedule schedule, double max_norm, nn::GradScaler* scaler = nullptr);

  /// The factor for the seeds of this window's backward passes.
  double loss_scale() const { return scaler_ ? scaler_->scale() : 1.0; }

  /// Forgets the gradients of the last window.  Call before its first backward.
  void begin_window();
  /// Collective.  If a gradient is NaN or inf the parameters stay as they were, on all ranks, since
  /// all see the same reduced gradients.  With a loss scale that can still fall this is an update
  /// skipped: it advances neither the schedule nor the optimizer.  Else it throws Error, which
  /// names `suspect` (the first tensor of the forward pass that was not finite) where the caller
  /// knows it, and the first parameter whose gradient is not finite.
  UpdateReport finish_window(const std::string& suspect = "");

  const nn::Schedule& schedule() const { return schedule_; }
  /// Of the updates to come.
  void set_schedule(const nn::Schedule& schedule) { schedule_ = schedule; }

 private:
  [[noreturn]] void refuse(const nn::GradientNorm& norm, const std::string& suspect) const;

  nn::ParameterArena& arena_;
  nn::Optimizer& optimizer_;
  GradientExchange& exchange_;
  nn::Schedule schedule_;
  double max_norm_;
  nn::GradScaler* scaler_;
};

}  // namespace bora::apps
