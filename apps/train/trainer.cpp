// SPDX-License-Identifier: Apache-2.0
#include "apps/train/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "apps/common/text.hpp"
#include "apps/common/threads.hpp"
#include "apps/train/dry_run.hpp"
#include "apps/train/global_batch.hpp"
#include "apps/train/parallel.hpp"
#include "apps/train/run_folder.hpp"
#include "apps/train/setup.hpp"
#include "comm/broadcast_state.hpp"
#include "comm/flight_recorder.hpp"
#include "core/log.hpp"
#include "core/precision.hpp"
#include "core/profile.hpp"
#include "data/atomic_file.hpp"
#include "kernels/cuda/conv3d_settings.hpp"

namespace bora::train {
namespace {

/// Why a run's steps cannot be replayed from a graph; empty if they can.
std::string why_no_graph(const RunConfig& config, const Task& task, int n_ranks) {
  if (n_ranks > 1) return "since reductions between ranks cannot be";
  if (accumulate_of(config.train, n_ranks) > 1) return "since an update takes several micro-steps";
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
  watch_.emplace(config_, ranks, device_);
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
  const std::string too_much =
      state_warning(model(), config,
                    window_plan(config, task_->training().size(), ranks,
                                sampling_weights(*task_, config.train.sampling)),
                    ranks, device_);
  if (!too_much.empty() && main()) log_warn(too_much);
  arena_ = std::make_unique<nn::ParameterArena>(model(), DType::f32, compute_type_, device_,
                                                shared_memory(tensors_));
  // Every rank starts from its own seed only in tests; whatever it started from, rank 0's weights
  // win.
  nn::initialise(model(), config.train.seed);
  optimizer_ = make_optimizer(config.optim, *arena_);
  average_.emplace(config.train.ema, *arena_, model());
  scaler_.emplace(scale_rule_of(config.scaler), compute_type_ == DType::f16 ? device_ : cpu());
  plan_.emplace(window_plan(config, task_->training().size(), ranks,
                            sampling_weights(*task_, config.train.sampling)));
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
  if (const data::Dataset* cases = task_->validation(); cases != nullptr && cases->size() > 0)
    validation_ =
        std::make_unique<Validation>(*task_, *cases, config.loader, device_, compute_type_);
  updater_->average_with(average_->ema());
  updater_->find_suspect_with([this](int64_t window) { return find_suspect_again(window); });
  updater_->advise_with([this] { return advice(); });
  if (device_ != cpu() && config.train.step_graph == "auto") {
    const std::string why = why_no_graph(config, *task_, ranks.size());
    if (why.empty()) graph_.emplace(device_);
    if (!why.empty() && main()) log_info("train.step_graph: the step is not captured, ", why);
  }
  const std::string dir = config.output.dir;
  ranks.agree("preparing " + dir, [&] {
    if (main()) lock_ = claim_folder(config);
  });
  set_flight_record_folder(dir);
  resume();
  if (saved_updates_ < 0) task_->prepare(ranks);
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
    saves_.emplace(
        config.output, [lock = lock_] { lock->require(); }, config.loader.timeout_s);
  }
  if (!finished() && !position_.validation_due) feed_->start(position_.data);
  announce();
  begin_watch();
}

Trainer::~Trainer() = default;

void Trainer::announce() const {
  if (!main()) return;
  for (const std::string& line : task_->describe()) log_info(line);
  log_info("network: ", nn::parameter_count(task_->model()), " parameters, ", config_.precision,
           "; ", ranks_.size(), " rank", ranks_.size() > 1 ? "s" : "", " x ",
           apps::compute_threads(), " threads, ", loader_options(config_.loader).n_threads,
           " more to read ahead");
  if (const int readers = config_.loader.threads, cores = apps::cores_in_mask(); readers > cores)
    log_warn("loader.threads=", readers, " on ", cores, " core", cores > 1 ? "s" : "",
             " of the affinity mask: they take turns with the computing; -1 chooses by the mask, "
             "--bind-to none or more cores a rank give them room");
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

bool Trainer::train() {
  setup_s_ = now_s() - run_begin_s_;
  // The patience of this start counts: with a longer one a run that had ended goes on.
  position_.stopped_early =
      config_.train.patience > 0 && position_.epochs_without_best >= config_.train.patience;
  if (main() && finished() && !position_.validation_due) say_why_finished();
  while (position_.validation_due || !finished()) {
    epoch_times_ = {.begin_s = now_s()};
    if (!position_.validation_due) {
      const int64_t epoch = position_.data.epoch;
      train_epoch();
      if (position_.data.epoch == epoch) break;  // stopped inside the epoch
      position_.validation_due = true;
    }
    const double begin_s = now_s();
    const std::optional<bool> best = validate();
    epoch_times_.validation_s = now_s() - begin_s;
    if (!best) break;
    end_epoch(*best);
    log_epoch();
  }
  if (unsaved_) save_progress(Save::leaving);
  finish_saves();
  if (main()) say_end();
  end_watch();
  return !stop_.stopping();
}

void Trainer::say_why_finished() const {
  if (position_.stopped_early)
    log_info("nothing to do: this run has ended, since there was no better ", task_->judged_by(),
             " for ", position_.epochs_without_best,
             " epochs; train.patience above that (or 0) goes on");
  else if (position_.data.epoch >= config_.train.epochs)
    log_info(
        "nothing to do: all ", config_.train.epochs,
        " epochs are trained; a larger train.epochs goes on, with --train.extend=hold, stretch "
        "or restart");
  else
    log_info("nothing to do: train.max_updates=", config_.train.max_updates,
             " are made; a larger number, or 0, goes on");
}

void Trainer::say_end() {
  const double total_s = now_s() - run_begin_s_;
  if (stop_.stopping() && windows_made_ <= 1) {
    const double signal_s = apps::seconds_since_stop_signal();
    log_warn("this start made ", windows_made_, " update", windows_made_ == 1 ? "" : "s",
             ": its set-up took ", apps::brief(setup_s_), " s of its ", apps::brief(total_s), " s",
             signal_s >= 0
                 ? detail::join(", the signal came ",
                                apps::brief(std::max(0.0, total_s - signal_s)), " s after it began")
                 : std::string(),
             ". Give the job more time, or signal it later");
  }
  if (stop_.stopping())
    progress_.line("stopped by " + stop_.reason() + " after update " + std::to_string(updates()) +
                   " of " + std::to_string(total_updates_) +
                   (saved_updates_ == updates() ? ": saved in " + config_.output.dir : "") +
                   "; the same command with --resume goes on");
}

// What to do after a NaN or inf.
std::string Trainer::advice() const {
  if (saved_updates_ < 0)
    return "No checkpoint was written yet: begin anew (--overwrite) with a smaller optim.lr, or "
           "look at the data";
  return detail::join("Resume from the last checkpoint (", config_.output.dir, ", after update ",
                      saved_updates_, ") with a smaller optim.lr, or look at the data");
}

void Trainer::save_progress(Save kind, bool best) {
  const double begin_s = now_s();
  save_last(kind, best);
  epoch_times_.save_s += now_s() - begin_s;
  unsaved_ = false;
  saved_updates_ = updates();
}

void Trainer::end_epoch(bool best) {
  position_.validation_due = false;
  position_.stopped_early =
      config_.train.patience > 0 && position_.epochs_without_best >= config_.train.patience;
  unsaved_ = true;
  const bool periodic = position_.data.epoch % config_.output.checkpoint_epochs == 0;
  if (periodic || finished() || stop_.stopping()) {
    save_progress(periodic ? Save::periodic : Save::leaving, best);
  } else if (best) {
    const double begin_s = now_s();
    save({"best.h5"});
    epoch_times_.save_s += now_s() - begin_s;
  }
  if (position_.stopped_early && main())
    progress_.line("no better " + task_->judged_by() + " for " +
                   std::to_string(config_.train.patience) + " epochs: the run ends");
}

void Trainer::train_epoch() {
  model().set_training(true);
  feed_->start(position_.data);
  const int64_t epoch = position_.data.epoch, n = plan_->sampler().options().n_samples;
  while (position_.data.epoch == epoch && !finished() && !told_to_leave()) {
    if (stop_.called()) save_progress(Save::periodic);
    // Whether the run ends here is known when all reports are in.
    if (config_.train.max_updates > 0 && updates_at_most() >= config_.train.max_updates) {
      take_all_reports();
      if (finished()) break;
    }
    // The last window of an epoch may be smaller; its gradient is the mean over what it holds.
    const int64_t samples = plan_->samples_at(position_.data);
    // What comes next is read while this is computed: nothing waits for files at an epoch's ends.
    if (position_.data.position + samples == n && validation_) validation_->read_ahead(ranks_);
    train_window(samples);
    position_.data.position += samples;
    if (position_.data.position == n) position_.data = {epoch + 1, 0};
    // At the end of an epoch its validation comes first: a checkpoint between the two would lose
    // it.
    const int64_t every = config_.output.checkpoint_updates;
    if (every > 0 && position_.data.position > 0 && updates_at_most() % every == 0) {
      take_all_reports();  // it may have been skipped
      if (updates() % every == 0) save_progress(Save::periodic);
    }
  }
  take_all_reports();
  if (position_.data.epoch > epoch && !finished()) feed_->start(position_.data);
}

// The first update of a start comes before it leaves.  All ranks agree: they have made as many.
bool Trainer::told_to_leave() {
  return stop_.due(saves_ && saves_->needs_meeting()) && windows_made_ > 0;
}

// Rank 0's running statistics on all ranks: so all validate the same network, the one that rank 0
// saves.  Ranks that join their statistics have the same ones anyway.
void Trainer::share_statistics() {
  std::vector<Tensor*> buffers;
  for (const nn::NamedBuffer& b : nn::named_buffers(model())) buffers.push_back(b.buffer);
  if (!buffers.empty() && ranks_.size() > 1) broadcast_buffers(tensors_, buffers);
}

}  // namespace bora::train
