// SPDX-License-Identifier: Apache-2.0
#include "apps/train/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "apps/common/text.hpp"
#include "apps/common/threads.hpp"
#include "apps/train/dry_run.hpp"
#include "apps/train/parallel.hpp"
#include "apps/train/run_folder.hpp"
#include "apps/train/setup.hpp"
#include "comm/broadcast_state.hpp"
#include "comm/flight_recorder.hpp"
#include "core/finite_watch.hpp"
#include "core/log.hpp"
#include "core/precision.hpp"
#include "core/profile.hpp"
#include "core/rng.hpp"
#include "data/atomic_file.hpp"
#include "kernels/cuda/conv3d_settings.hpp"

namespace bora::train {
namespace {

// On a device: windows that may be under way while the host issues the next one.  Their reports are
// read so much later, on all ranks alike.
constexpr int64_t kWindowsAhead = 2;

/// A micro-step's place in the order in which losses are summed: that of its first sample in the
/// run.
int64_t place_of(const data::Slot& slot) { return (slot.epoch << 32) + slot.slot; }

/// Why a run's steps cannot be replayed from a graph; empty if they can.
std::string why_no_graph(const RunConfig& config, const Task& task, int n_ranks) {
  if (n_ranks > 1) return "since reductions between ranks cannot be";
  if (config.train.accumulate > 1) return "since train.accumulate is above 1";
  return task.why_not_captured();
}

}  // namespace

std::unique_ptr<Collective> group_of_one(const Collective& ranks, const ComputePlace& place) {
  if (place.tensors != nullptr || place.device == cpu()) return nullptr;
  BORA_CHECK(ranks.size() == 1, "Trainer: ", ranks.size(), " ranks on ", place.device,
             " want a group for its tensors");
  return make_self_communicator(place.device.type);
}

Trainer::Trainer(const MakeTask& make_task, const RunConfig& config, Collective& ranks,
                 const ComputePlace& place)
    : config_(config),
      ranks_(ranks),
      device_(place.device),
      alone_(group_of_one(ranks, place)),
      tensors_(place.tensors != nullptr ? *place.tensors
               : alone_                 ? *alone_
                                        : ranks),
      compute_type_(precision_type(config.precision)),
      progress_(ranks.rank() == 0),
      stop_(ranks, config.train.max_hours) {
  run_begin_s_ = now_s();
  check_parallel(config, device_, ranks.size());
  if (device_ != cpu()) {
    kernels::cuda::Conv3dSettings settings = kernels::cuda::conv3d_settings();
    settings.tf32 = config.cuda.tf32;
    settings.tune = config.cuda.tune;
    settings.workspace_limit = config.cuda.workspace_mb << 20;
    kernels::cuda::set_conv3d_settings(settings);
  }
  task_ = make_task();
  BORA_CHECK(task_, "Trainer: there is no task");
  task_->set_collective(&tensors_);
  const std::string too_much = state_warning(
      model(), config, window_plan(config, task_->training().size(), ranks), ranks, device_);
  if (!too_much.empty() && main()) log_warn(too_much);
  arena_ = std::make_unique<nn::ParameterArena>(model(), DType::f32, compute_type_, device_,
                                                shared_memory(tensors_));
  // Every rank starts from its own seed only in tests; whatever it started from, rank 0's weights
  // win.
  nn::initialise(model(), config.train.seed);
  optimizer_ = make_optimizer(config.optim, *arena_);
  average_.emplace(config.train.ema, *arena_, model());
  scaler_.emplace(scale_rule_of(config.scaler), compute_type_ == DType::f16 ? device_ : cpu());
  plan_.emplace(window_plan(config, task_->training().size(), ranks));
  plan_->sampler().require_samples();
  total_updates_ = plan_->updates_an_epoch() * config.train.epochs;
  exchange_ = make_exchange(config, *arena_, *plan_, tensors_);
  lr_ranks_ = config.optim.scale_lr == "linear" ? ranks.size() : 1;
  updater_ = std::make_unique<apps::Updater>(
      *arena_, *optimizer_, *exchange_,
      schedule_of(config.optim, total_updates_, static_cast<int>(lr_ranks_)), config.optim.clip,
      compute_type_ == DType::f16 ? &*scaler_ : nullptr);
  feed_ = std::make_unique<BatchFeed>(task_->training(), *plan_, config.train.seed, config.loader,
                                      device_);
  losses_.emplace(task_->loss_names(), device_,
                  static_cast<int64_t>(plan_->micro_steps(plan_->samples()).size()));
  updater_->average_with(average_->ema());
  updater_->find_suspect_with([this](int64_t window) { return find_suspect_again(window); });
  if (device_ != cpu() && config.train.step_graph == "auto") {
    const std::string why = why_no_graph(config, *task_, ranks.size());
    if (why.empty()) graph_.emplace(device_);
    if (!why.empty() && main()) log_info("train.step_graph: the step is not captured, ", why);
  }
  const std::string dir = config.output.dir;
  ranks.agree("preparing " + dir, [&] {
    if (main()) claim_folder(config);
  });
  set_flight_record_folder(dir);
  resume();
  Tensor weights = arena_->values().all();
  broadcast_buffers(tensors_, {&weights});
  share_statistics();
  arena_->refresh_working();
  average_->settle(updates(), updates() > 0, main());
  if (main()) {
    data::write_file_atomic(dir + "/config.toml", task_->settings_text());
    const std::string log = dir + "/metrics.jsonl";
    if (config.resume) data::truncate_after(log, "update", static_cast<double>(updates()));
    metrics_log_ = std::make_unique<data::JsonlWriter>(
        log, config.resume ? data::OpenMode::append : data::OpenMode::replace);
    saves_.emplace(config.output);
  }
  announce();
}

Trainer::~Trainer() = default;

void Trainer::announce() const {
  if (!main()) return;
  for (const std::string& line : task_->describe()) log_info(line);
  log_info("network: ", nn::parameter_count(task_->model()), " parameters, ", config_.precision,
           "; ", ranks_.size(), " rank", ranks_.size() > 1 ? "s" : "", " x ",
           apps::compute_threads(), " threads");
  log_info("run: ", config_.train.epochs, " epochs x ", plan_->updates_an_epoch(),
           " updates, effective batch ", plan_->samples(), ", peak learning rate ",
           updater_->schedule().peak,
           config_.optim.scale_lr == "linear"
               ? detail::join(" (", config_.optim.lr, " x ", lr_ranks_, " ranks)")
               : std::string(),
           ", writes to ", config_.output.dir);
  if (plan_->sharded())
    log_info("reproducible: ", plan_->n_shards(), " shards of ", config_.comm.shard_samples,
             " samples an update; the same bits for any number of ranks with ",
             apps::compute_threads(), " threads each and the same effective batch");
  if (average_->on())
    log_info("ema: weights averaged with decay ", config_.train.ema,
             "; validation and best.h5 go by the average");
  for (const std::string& warning : task_->warnings(ranks_.size())) log_warn(warning);
}

bool Trainer::finished() const {
  return position_.data.epoch >= config_.train.epochs || position_.stopped_early ||
         (config_.train.max_updates > 0 && updates() >= config_.train.max_updates);
}

bool Trainer::run() {
  while (position_.validation_due || !finished()) {
    if (!position_.validation_due) {
      const int64_t epoch = position_.data.epoch;
      train_epoch();
      if (position_.data.epoch == epoch) break;  // stopped inside the epoch
      position_.validation_due = true;
    }
    const std::optional<bool> best = validate();
    if (!best) break;
    end_epoch(*best);
  }
  if (position_.data.position > 0 || position_.validation_due) save_last(Save::leaving);
  finish_saves();
  if (!main()) return !stop_.stopping();
  if (stop_.stopping())
    progress_.line(
        updates() == 0
            ? "stopped by " + stop_.reason() + " before the first update: there is nothing to save"
            : "stopped by " + stop_.reason() + " after update " + std::to_string(updates()) +
                  " of " + std::to_string(total_updates_) + ": saved in " + config_.output.dir +
                  "; the same command with --resume goes on");
  if (const std::string cost = saves_->summary(now_s() - run_begin_s_); !cost.empty())
    progress_.line(cost);
  progress_.line("trained " + std::to_string(updates()) + " updates in " +
                 apps::duration_text(now_s() - run_begin_s_) +
                 (position_.best_epoch < 0
                      ? std::string("; not validated yet")
                      : "; best validation loss " + apps::brief(position_.best) + " after epoch " +
                            std::to_string(position_.best_epoch)));
  return !stop_.stopping();
}

void Trainer::end_epoch(bool best) {
  position_.validation_due = false;
  position_.stopped_early =
      config_.train.patience > 0 && position_.epochs_without_best >= config_.train.patience;
  const bool periodic = position_.data.epoch % config_.output.checkpoint_epochs == 0;
  if (periodic || finished() || stop_.stopping())
    save_last(periodic ? Save::periodic : Save::leaving, best);
  else if (best)
    save({"best.h5"});
  if (position_.stopped_early && main())
    progress_.line("no better validation loss for " + std::to_string(config_.train.patience) +
                   " epochs: the run ends");
}

void Trainer::train_epoch() {
  model().set_training(true);
  feed_->start(position_.data);
  const int64_t epoch = position_.data.epoch, n = plan_->sampler().options().n_samples;
  while (position_.data.epoch == epoch && !finished() &&
         !stop_.due(saves_ && saves_->needs_meeting())) {
    if (stop_.called()) save_last(Save::periodic);
    // Whether the run ends here is known when all reports are in.
    if (config_.train.max_updates > 0 && updates_at_most() >= config_.train.max_updates) {
      take_all_reports();
      if (finished()) break;
    }
    // The last window of an epoch may be smaller; its gradient is the mean over what it holds.
    const int64_t samples = plan_->samples_at(position_.data);
    train_window(samples);
    position_.data.position += samples;
    if (position_.data.position == n) position_.data = {epoch + 1, 0};
    // At the end of an epoch its validation comes first: a checkpoint between the two would lose
    // it.
    const int64_t every = config_.output.checkpoint_updates;
    if (every > 0 && position_.data.position > 0 && updates_at_most() % every == 0) {
      take_all_reports();  // it may have been skipped
      if (updates() % every == 0) save_last(Save::periodic);
    }
  }
  take_all_reports();
}

void Trainer::train_window(int64_t window_samples) {
  monitor_.begin_step();
  const double data_wait = feed_->wait_s(), comm_wait = exchange_->counters().wait_s;
  int64_t samples_here = 0;
  updater_->begin_window();
  suspect_.clear();
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
    const bool finite = losses_->note(place_of(step.first), weight, loss);
    // Where no smaller loss scale can help, the run ends after this window: find out why.
    if (!finite && suspect_.empty() && (compute_type_ != DType::f16 || scaler_->at_lowest()))
      suspect_ = find_suspect(step);
    if (k + 1 < n_steps) feed_->prefetch();
  }
  if (!by_graph) updater_->enqueue_update(suspect_);
  const int64_t ticket = updater_->post_report();
  losses_->end_window(ticket);
  windows_.push_back({ticket, position_.data});
  feed_->prefetch();
  monitor_.add_data_wait(feed_->wait_s() - data_wait);
  monitor_.add_comm_wait(exchange_->counters().wait_s - comm_wait);
  monitor_.end_step(static_cast<double>(samples_here));
  take_reports(device_ == cpu() ? ticket : ticket - kWindowsAhead);
}

// A smaller window at the end of an epoch has another weight, which the capture would not follow.
bool Trainer::graph_fits(int64_t window_samples) const {
  return graph_ && window_samples == plan_->samples();
}

// One micro-step and its update.  What a replay leaves out is the host's: marks of which gradients
// are there, counters.
void Trainer::run_graph(const MicroStep& step, int64_t window_samples) {
  graph_->run(
      "step", {step.batch.input, step.batch.target, step.batch.region},
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
  backward(loss.total, updater_->seed(weight));
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
// rank's gradients are in the arena afterwards.  All ranks do it at once.
std::string Trainer::find_suspect_again(int64_t window) {
  const auto found = std::find_if(windows_.begin(), windows_.end(),
                                  [&](const Window& w) { return w.ticket == window; });
  if (found == windows_.end()) return {};
  std::string suspect;
  const int64_t samples = plan_->samples_at(found->at);
  arena_->clear_gradients();
  feed_->read_again(found->at, [&](const MicroStep& step) {
    if (suspect.empty()) suspect = find_suspect(step);
    exchange_->begin_micro_step(/*last=*/false);
    const double weight = static_cast<double>(step.samples) / static_cast<double>(samples);
    backward(forward(step).total, updater_->seed(weight));
    exchange_->end_micro_step();
    return true;
  });
  return suspect;
}

void Trainer::take_reports(int64_t up_to) {
  up_to = std::min(up_to, windows_.empty() ? int64_t{0} : windows_.back().ticket);
  for (const apps::UpdateReport& report : updater_->reports(up_to)) {
    const Window window = windows_.front();
    windows_.pop_front();
    log_window(report, window.at);
  }
}

// Rank 0's running statistics on all ranks: so all validate the same network, the one that rank 0
// saves.  Ranks that join their statistics have the same ones anyway.
void Trainer::share_statistics() {
  std::vector<Tensor*> buffers;
  for (const nn::NamedBuffer& b : nn::named_buffers(model())) buffers.push_back(b.buffer);
  if (!buffers.empty() && ranks_.size() > 1) broadcast_buffers(tensors_, buffers);
}

}  // namespace bora::train
