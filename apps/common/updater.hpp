// SPDX-License-Identifier: Apache-2.0
// Updater: what happens between the last backward of a window and the next forward.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/gradient_exchange.hpp"
#include "core/readback.hpp"
#include "kernels/step_scalars.hpp"
#include "nn/amp/grad_scaler.hpp"
#include "nn/optim/ema.hpp"
#include "nn/optim/optimizer.hpp"
#include "nn/optim/schedule.hpp"
#include "nn/parameter_arena.hpp"

namespace bora::apps {

/// What one update did, for the log.
struct UpdateReport {
  int64_t window = 0;  ///< the ticket: 1 for the updater's first window
  int64_t update = 0;  ///< updates made, this one included
  double lr = 0;
  double gradient_norm = 0;  ///< over all parameters, before clipping
  double clip = 1;           ///< factor that clipping multiplied the gradients with
  bool skipped = false;   ///< gradients overflowed: nothing was updated, `update` is the last one
  double loss_scale = 1;  ///< that the gradients were computed with
  double next_loss_scale = 1;
  int64_t skipped_so_far = 0;  ///< updates skipped since the run began
};

/// Reduces, unscales, counts what is not finite, measures, clips, steps unless something
/// overflowed, moves the loss scale: in this order.
///
/// On the CPU all of it is done when a call returns.  With the arena on a device nothing waits:
/// loss scale, learning rate, clip factor, number of updates and the flag that skips an update stay
/// on the device (kernels/step_scalars.hpp), and the report comes later:
///
///   updater.begin_window();
///   backward(loss, updater.seed(weight));        // for each micro-step
///   const int64_t ticket = updater.end_window();
///   for (const UpdateReport& r : updater.reports()) log(r);              // what is known by now
///
/// Everything between begin_window() and post_report() can be captured into a graph; end_window()
/// is enqueue_update() and post_report().
class Updater {
 public:
  /// All outlive the updater.  max_norm 0: no clipping.  scaler: the loss scale, or nullptr where
  /// the loss is not scaled; on a device its state moves into the updater's scalars.
  Updater(nn::ParameterArena& arena, nn::Optimizer& optimizer, GradientExchange& exchange,
          nn::Schedule schedule, double max_norm, nn::GradScaler* scaler = nullptr);

  bool on_device() const { return arena_.device().type != DeviceType::cpu; }

  /// The loss scale of this window.  Waits for a device: for logs, not for steps.
  double loss_scale() const { return scaler_ ? scaler_->scale() : 1.0; }
  /// What a backward pass of this window begins with: weight times the loss scale, () f32 on the
  /// arena's device.  Without waiting.  A captured graph keeps the weight it was captured with.
  Tensor seed(double weight);

  /// Forgets the gradients of the last window.  Call before its first backward, outside a capture:
  /// if a checkpoint was loaded, the number of updates goes to the device here.
  void begin_window();

  /// Ends the window and returns its ticket.  Collective.  If a gradient is NaN or inf the
  /// parameters stay as they were, on all ranks, since all see the same reduced gradients.  With a
  /// loss scale that can still fall this is an update skipped: it advances neither the schedule nor
  /// the optimizer.  Else it is an Error, thrown here on the CPU and by reports() on a device,
  /// where no later window changes the parameters either.  It names `suspect` (the first tensor of
  /// the forward pass that was not finite) where the caller knows it, and the first parameter whose
  /// gradient is not finite.
  int64_t end_window(const std::string& suspect = "");
  /// The two parts of end_window(): what may be captured, and what comes after each launch.
  void enqueue_update(const std::string& suspect = "");
  int64_t post_report();

  /// Reports not given yet, in order, as far as they have arrived; never waits.
  std::vector<UpdateReport> reports() { return reports_up_to(0, true); }
  /// Those of windows up to ticket `up_to`, and no others; waits for them.  Ranks that must act and
  /// fail together name the same ticket, some windows back: it has arrived by then.
  std::vector<UpdateReport> reports(int64_t up_to) { return reports_up_to(up_to, false); }
  /// Windows whose report has not been given yet.
  int64_t pending() const { return readback_.pending() + static_cast<int64_t>(ready_.size()); }

  /// end_window() and its report, at once: on a device this waits.  Throws Error if an earlier
  /// report has not been fetched.
  UpdateReport finish_window(const std::string& suspect = "");

  /// Asked for the suspect of a window (its ticket) when a device reports a refused update: it may
  /// compute the window again, and leave its gradients in the arena, where the message looks for
  /// the first that is not finite.
  void find_suspect_with(std::function<std::string(int64_t window)> find) {
    find_suspect_ = std::move(find);
  }

  /// An average of the arena's weights that takes its step after each update that was made, skipped
  /// ones excepted, within enqueue_update().  It outlives the updater; nullptr: none.  Call it
  /// outside a capture.
  void average_with(nn::Ema* ema) { ema_ = ema; }

  const nn::Schedule& schedule() const { return schedule_; }
  /// Of the updates to come.  Waits for a device; captured graphs see it.
  void set_schedule(const nn::Schedule& schedule);

 private:
  void update_on_host(const std::string& suspect);
  std::vector<UpdateReport> reports_up_to(int64_t ticket, bool also_arrived);
  UpdateReport report_of(const DeviceReadback::Item& item);
  kernels::StepRule rule() const;
  [[noreturn]] void refuse(int64_t update, int64_t non_finite, double scale,
                           const std::string& suspect) const;

  nn::ParameterArena& arena_;
  nn::Optimizer& optimizer_;
  GradientExchange& exchange_;
  nn::Schedule schedule_;
  double max_norm_;
  nn::GradScaler* scaler_;
  nn::Ema* ema_ = nullptr;
  std::function<std::string(int64_t)> find_suspect_;
  int64_t windows_ = 0;

  // On the CPU: reports that nobody has fetched.
  std::deque<UpdateReport> ready_;
  std::optional<UpdateReport> latest_;  // of enqueue_update, until post_report

  // On a device.
  Tensor rule_, scalars_, stats_;
  DeviceReadback readback_;
  int64_t told_updates_ = 0;  // what the optimizer was told last
};

}  // namespace bora::apps
