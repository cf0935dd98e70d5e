// SPDX-License-Identifier: Apache-2.0
// One update of a Trainer: forward, backward, reduce, step; and who was at fault when it is
// refused.
#include <algorithm>
#include <cmath>
#include <limits>

#include "apps/train/trainer.hpp"
#include "core/finite_watch.hpp"
#include "core/precision.hpp"
#include "core/profile.hpp"
#include "core/rng.hpp"

namespace bora::train {
namespace {

// On a device: windows that may be under way while the host issues the next one.  Their reports are
// read so much later, on all ranks alike.
constexpr int64_t kWindowsAhead = 2;

/// A micro-step's place in the order in which losses are summed: that of its first sample in the
/// run.
int64_t place_of(const data::Slot& slot) { return (slot.epoch << 32) + slot.slot; }

}  // namespace

void Trainer::train_window(int64_t window_samples) {
  const double begin_s = now_s();
  monitor_.begin_step();
  const double data_wait = feed_->wait_s(), comm_wait = exchange_->counters().wait_s;
  int64_t samples_here = 0;
  samples_ += static_cast<double>(window_samples);
  updater_->begin_window();
  const auto n_steps = static_cast<int64_t>(plan_->micro_steps(window_samples).size());
  const bool by_graph = graph_fits(window_samples);
  for (int64_t k = 0; k < n_steps; ++k) {
    const MicroStep step = feed_->next();
    const auto weight = static_cast<double>(step.samples);
    samples_here += step.samples;
    if (by_graph) {
      run_graph(step, window_samples);
      losses_->note(place_of(step.first), weight, {});
      continue;
    }
    exchange_->begin_micro_step(/*last=*/k + 1 == n_steps);
    const Loss loss = forward_backward(step, k, window_samples);
    exchange_->end_micro_step();
    losses_->note(place_of(step.first), weight, loss);
    if (k + 1 < n_steps) feed_->prefetch();
  }
  if (!by_graph) updater_->enqueue_update();
  const int64_t ticket = updater_->post_report();
  losses_->end_window(ticket);
  windows_.push_back({ticket, position_.data});
  feed_->prefetch();
  const double waited_s = feed_->wait_s() - data_wait,
               reduced_s = exchange_->counters().wait_s - comm_wait;
  monitor_.add_data_wait(waited_s);
  monitor_.add_comm_wait(reduced_s);
  monitor_.end_step(static_cast<double>(samples_here));
  epoch_times_.steps_s += now_s() - begin_s;
  epoch_times_.train_data_wait_s += waited_s;
  epoch_times_.data_wait_s += waited_s;
  epoch_times_.comm_wait_s += reduced_s;
  epoch_times_.samples += samples_here;
  ++windows_made_;
  unsaved_ = true;
  take_reports(device_ == cpu() ? ticket : ticket - kWindowsAhead);
}

// A smaller window at the end of an epoch has another weight, which the capture would not follow.
bool Trainer::graph_fits(int64_t window_samples) const {
  return graph_ && window_samples == plan_->samples();
}

// One micro-step and its update.  What a replay leaves out is the host's: marks of which gradients
// are there, counters.
void Trainer::run_graph(const MicroStep& step, int64_t window_samples) {
  std::vector<Tensor> inputs{step.batch.input, step.batch.target, step.batch.region};
  if (step.batch.weight.defined()) inputs.push_back(step.batch.weight);
  graph_->run(
      "step", inputs,
      [&]() -> std::vector<Tensor> {
        exchange_->begin_micro_step(/*last=*/true);
        forward_backward(step, 0, window_samples);
        exchange_->end_micro_step();
        updater_->enqueue_update();
        return {};
      },
      [&] {
        exchange_->abandon();
        updater_->begin_window();
      });
}

Loss Trainer::forward_backward(const MicroStep& step, int64_t k, int64_t window_samples) {
  Loss loss = forward(step);
  losses_->keep(k, loss);
  // The exchange adds the ranks up: each sample's gradient weighs 1 / (samples of the window).
  const double weight = static_cast<double>(step.samples) / static_cast<double>(window_samples);
  // A loss of inf may have a gradient of 0 (charbonnier's): on the CPU, where looking is free, such
  // a window ends as one with a NaN in its gradients.
  const bool lost = device_ == cpu() && step.samples > 0 && !std::isfinite(loss.total.item());
  backward(loss.total, updater_->seed(lost ? std::numeric_limits<double>::quiet_NaN() : weight));
  loss.total = Tensor();  // and the tape with it
  return loss;
}

Loss Trainer::forward(const MicroStep& step) {
  const PrecisionScope precision(compute_type_);
  // What the network draws (dropout) depends on the sample's place in the epoch, not on the rank.
  const RngScope rng({.seed = config_.train.seed,
                      .base = rng_stream("step", static_cast<uint64_t>(step.first.epoch),
                                         static_cast<uint64_t>(step.first.slot))});
  return task_->loss(step.batch);
}

std::string Trainer::find_suspect(const MicroStep& step) {
  const NoGrad no_grad;
  const FiniteWatch watch;
  forward(step);
  return watch.first();
}

// A device says that a window was refused when later ones have been issued: those change no weight,
// but overwrite gradients.  So the window is computed again, with the same samples and draws; this
// rank's gradients are in the arena afterwards.  On the CPU it is the window under way, whose
// reduced gradients stay.  All ranks do it at once, whoever is at fault: a forward pass may have
// statistics to share (sync_batch).
std::string Trainer::find_suspect_again(int64_t window) {
  const auto found = std::find_if(windows_.begin(), windows_.end(),
                                  [&](const Window& w) { return w.ticket == window; });
  if (found == windows_.end() && device_ != cpu()) return {};
  const data::EpochPosition at = found == windows_.end() ? position_.data : found->at;
  std::string mine;
  ranks_.agree("looking for the cause", [&] { compute_again(at, mine); });
  const std::vector<std::string> all = ranks_.all_gather_text(mine, "suspects");
  for (int r = 0; r < ranks_.size(); ++r)
    if (const std::string& suspect = all[static_cast<size_t>(r)]; !suspect.empty())
      return ranks_.size() == 1 ? suspect : detail::join(suspect, " on rank ", r);
  return {};
}

void Trainer::compute_again(data::EpochPosition at, std::string& suspect) {
  const int64_t samples = plan_->samples_at(at);
  if (device_ != cpu()) arena_->clear_gradients();
  feed_->read_again(at, [&](const MicroStep& step) {
    const std::string found = find_suspect(step);
    if (suspect.empty()) suspect = found;
    if (device_ == cpu()) return true;
    exchange_->begin_micro_step(/*last=*/false);
    const double weight = static_cast<double>(step.samples) / static_cast<double>(samples);
    backward(forward(step).total, updater_->seed(weight));
    exchange_->end_micro_step();
    return true;
  });
}

void Trainer::take_reports(int64_t up_to) {
  up_to = std::min(up_to, windows_.empty() ? int64_t{0} : windows_.back().ticket);
  for (const apps::UpdateReport& report : updater_->reports(up_to)) {
    const Window window = windows_.front();
    windows_.pop_front();
    log_window(report, window.at);
  }
}

}  // namespace bora::train
