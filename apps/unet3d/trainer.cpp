// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "apps/common/text.hpp"
#include "apps/common/threads.hpp"
#include "apps/unet3d/parallel.hpp"
#include "apps/unet3d/run_folder.hpp"
#include "apps/unet3d/setup.hpp"
#include "comm/broadcast_state.hpp"
#include "comm/flight_recorder.hpp"
#include "core/finite_watch.hpp"
#include "core/log.hpp"
#include "core/precision.hpp"
#include "core/profile.hpp"
#include "core/rng.hpp"
#include "data/atomic_file.hpp"

namespace bora::unet3d {
namespace {

/// A batch of no samples, shaped as this one's would be.
data::Batch no_samples(const data::Sample& like) {
  data::Batch batch = data::collate({like});
  for (Tensor* t : {&batch.input, &batch.target, &batch.region, &batch.valid}) *t = t->rows(0, 0);
  batch.weights.clear();
  batch.names.clear();
  return batch;
}

/// A micro-step's place in the order in which losses are summed: that of its first sample in the
/// run.
int64_t place_of(const data::Slot& slot) { return (slot.epoch << 32) + slot.slot; }

}  // namespace

Trainer::Trainer(const Config& config, Collective& ranks)
    : config_(config),
      ranks_(ranks),
      compute_type_(precision_type(config.precision)),
      progress_(ranks.rank() == 0),
      stop_(ranks, config.train.max_hours) {
  run_begin_s_ = now_s();
  check_device(config.device);
  check_parallel(config);
  if (config.data.root.empty())
    throw UsageError("data.root is not set: wanted the folder of the cases (--data.root=DIR)");
  cases_ = std::make_unique<Cases>(config.data, config.split, ranks);
  model_ = make_model(config, cases_->n_channels());
  cases_->require_extents(model_->min_extent(), config.model.levels);
  model_->set_collective(&ranks);
  arena_ = std::make_unique<nn::ParameterArena>(*model_, DType::f32, compute_type_, cpu(),
                                                shared_memory(ranks));
  // Every rank starts from its own seed only in tests; whatever it started from, rank 0's weights
  // win.
  nn::initialise(*model_, config.train.seed);
  optimizer_ = make_optimizer(config.optim, *arena_);
  scaler_.emplace(scale_rule_of(config.scaler));
  plan_.emplace(window_plan(config, cases_->training().size(), ranks));
  plan_->sampler().require_samples();
  total_updates_ = plan_->updates_an_epoch() * config.train.epochs;
  exchange_ = make_exchange(config, *arena_, *plan_, ranks);
  lr_ranks_ = config.optim.scale_lr == "linear" ? ranks.size() : 1;
  updater_ = std::make_unique<apps::Updater>(
      *arena_, *optimizer_, *exchange_,
      schedule_of(config.optim, total_updates_, static_cast<int>(lr_ranks_)), config.optim.clip,
      compute_type_ == DType::f16 ? &*scaler_ : nullptr);
  loader_ = std::make_unique<data::Loader<Loaded>>(
      data::LoaderOptions{.n_threads = config.loader.threads, .queue_depth = config.loader.queue},
      [this](const data::Slot& slot) {
        const RngKey key{config_.train.seed,
                         rng_stream("augment", static_cast<uint64_t>(slot.epoch),
                                    static_cast<uint64_t>(slot.index))};
        return Loaded{slot, cases_->training().read(slot.index, data::WindowChoice::random(key))};
      },
      [this](int64_t index) { return cases_->training().name(index); });
  losses_.emplace(loss_names(config.loss));
  const std::string dir = config.output.dir;
  ranks.agree("preparing " + dir, [&] {
    if (main()) claim_folder(config);
  });
  set_flight_record_folder(dir);
  resume();
  Tensor weights = arena_->values().all();
  broadcast_buffers(ranks, {&weights});
  share_statistics();
  arena_->refresh_working();
  if (main()) {
    data::write_file_atomic(dir + "/config.toml", settings_text(config_));
    const std::string log = dir + "/metrics.jsonl";
    if (config.resume) data::truncate_after(log, "update", static_cast<double>(updates()));
    metrics_log_ = std::make_unique<data::JsonlWriter>(
        log, config.resume ? data::OpenMode::append : data::OpenMode::replace);
  }
  announce();
}

Trainer::~Trainer() = default;

void Trainer::announce() const {
  if (!main()) return;
  log_info("unet3d: base ", config_.model.base, ", ", nn::parameter_count(*model_), " parameters, ",
           config_.model.norm, " norm, ", config_.precision, "; ", ranks_.size(), " rank",
           ranks_.size() > 1 ? "s" : "", " x ", apps::compute_threads(), " threads");
  log_info("data: ", cases_->describe());
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
  for (const std::string& warning : parallel_warnings(config_, ranks_.size())) log_warn(warning);
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
  if (position_.data.position > 0 || position_.validation_due) save_last();
  if (!main()) return !stop_.stopping();
  if (stop_.stopping())
    progress_.line(
        updates() == 0
            ? "stopped by " + stop_.reason() + " before the first update: there is nothing to save"
            : "stopped by " + stop_.reason() + " after update " + std::to_string(updates()) +
                  " of " + std::to_string(total_updates_) + ": saved in " + config_.output.dir +
                  "; the same command with --resume goes on");
  if (n_saves_ > 0)
    progress_.line(detail::join(n_saves_, " checkpoints took ", apps::brief(save_s_), " s, ",
                                apps::brief(100 * save_s_ / (now_s() - run_begin_s_)),
                                " % of the run"));
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
  if (best) save("best.h5");
  if (position_.data.epoch % config_.output.checkpoint_epochs == 0 || finished() ||
      stop_.stopping())
    save_last();
  if (position_.stopped_early && main())
    progress_.line("no better validation loss for " + std::to_string(config_.train.patience) +
                   " epochs: the run ends");
}

void Trainer::train_epoch() {
  model_->set_training(true);
  loader_->start(plan_->slots(position_.data));
  const int64_t epoch = position_.data.epoch, n = plan_->sampler().options().n_samples;
  while (position_.data.epoch == epoch && !finished() && !stop_.due()) {
    // The last window of an epoch may be smaller; its gradient is the mean over what it holds.
    const int64_t samples = plan_->samples_at(position_.data);
    train_window(samples);
    position_.data.position += samples;
    if (position_.data.position == n) position_.data = {epoch + 1, 0};
    // At the end of an epoch its validation comes first: a checkpoint between the two would lose
    // it.
    if (config_.output.checkpoint_updates > 0 && position_.data.position > 0 &&
        updates() % config_.output.checkpoint_updates == 0)
      save_last();
  }
}

void Trainer::train_window(int64_t window_samples) {
  monitor_.begin_step();
  const double data_wait = loader_->wait_s(), comm_wait = exchange_->counters().wait_s;
  int64_t samples_here = 0;
  updater_->begin_window();
  suspect_.clear();
  const std::vector<int64_t> steps = plan_->micro_steps(window_samples);
  for (size_t k = 0; k < steps.size(); ++k) {
    std::vector<Loaded> loaded;
    while (static_cast<int64_t>(loaded.size()) < steps[k]) {
      std::optional<Loaded> next = loader_->next();
      BORA_CHECK(next, "the loader ended ", steps[k] - static_cast<int64_t>(loaded.size()),
                 " samples early");
      samples_here += next->slot.padding ? 0 : 1;
      loaded.push_back(std::move(*next));
    }
    exchange_->begin_micro_step(/*last=*/k + 1 == steps.size());
    forward_backward(loaded, window_samples);
    exchange_->end_micro_step();
  }
  const apps::UpdateReport report = updater_->finish_window(suspect_);
  monitor_.add_data_wait(loader_->wait_s() - data_wait);
  monitor_.add_comm_wait(exchange_->counters().wait_s - comm_wait);
  monitor_.end_step(static_cast<double>(samples_here));
  log_window(report);
}

void Trainer::forward_backward(const std::vector<Loaded>& loaded, int64_t window_samples) {
  std::vector<data::Sample> samples;
  for (const Loaded& l : loaded)
    if (!l.slot.padding) samples.push_back(l.sample);
  // Without a sample of its own a rank takes part with a batch of none: it makes the calls of the
  // others (statistics, reductions), and adds nothing to any of them.
  const data::Batch batch =
      samples.empty() ? no_samples(loaded.front().sample) : data::collate(samples);
  const auto real = static_cast<double>(samples.size());

  // What the network draws (dropout) depends on the sample's place in the epoch, not on the rank.
  const RngPosition draws{
      .seed = config_.train.seed,
      .base = rng_stream("step", static_cast<uint64_t>(loaded.front().slot.epoch),
                         static_cast<uint64_t>(loaded.front().slot.slot))};
  // The exchange adds the ranks up: each sample's gradient weighs 1 / (samples of the window).
  const double seed = updater_->loss_scale() * real / static_cast<double>(window_samples);
  backward(window_loss(batch, draws, loaded.front().slot, real),
           Tensor::scalar<float>(static_cast<float>(seed)));
}

Tensor Trainer::window_loss(const data::Batch& batch, const RngPosition& draws,
                            const data::Slot& first, double weight) {
  const PrecisionScope precision(compute_type_);
  const auto run = [&] {
    const RngScope rng(draws);
    return compute_loss(config_.loss, model_->forward(batch.input), batch.target, batch.region);
  };
  const Loss loss = run();
  bool finite = true;
  if (weight > 0) {
    std::vector<double> values, counts;
    for (const auto& [name, value] : loss.parts) {
      const bool counted = std::isfinite(value);
      finite = finite && counted;
      values.push_back(counted ? value * weight : 0.0);
      counts.push_back(counted ? weight : 0.0);
    }
    losses_->add(place_of(first), values, counts);
  }
  // Where no smaller loss scale can help, the run ends after this window: find out why.
  if (!finite && suspect_.empty() && (compute_type_ != DType::f16 || scaler_->at_lowest())) {
    const NoGrad no_grad;
    const FiniteWatch watch;
    run();
    suspect_ = watch.first();
  }
  return loss.total;
}

// Rank 0's running statistics on all ranks: so all validate the same network, the one that rank 0
// saves.  Ranks that join their statistics have the same ones anyway.
void Trainer::share_statistics() {
  std::vector<Tensor*> buffers;
  for (const nn::NamedBuffer& b : nn::named_buffers(*model_)) buffers.push_back(b.buffer);
  if (!buffers.empty() && ranks_.size() > 1) broadcast_buffers(ranks_, buffers);
}

}  // namespace bora::unet3d
