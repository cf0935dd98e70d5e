// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "apps/common/threads.hpp"
#include "apps/unet3d/run_folder.hpp"
#include "apps/unet3d/setup.hpp"
#include "comm/broadcast_state.hpp"
#include "core/finite_watch.hpp"
#include "core/log.hpp"
#include "core/precision.hpp"
#include "core/profile.hpp"
#include "core/rng.hpp"
#include "data/atomic_file.hpp"

namespace bora::unet3d {
namespace {

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

std::string brief(double value) {
  std::ostringstream out;
  out << std::setprecision(4) << value;
  return out.str();
}

/// Of a batch of one, in m/s.
kernels::ErrorSums physical_errors(const Tensor& prediction, const data::Batch& batch) {
  Tensor p = prediction.dtype() == DType::f32 ? prediction.detach().clone()
                                              : prediction.detach().to(DType::f32);
  Tensor t = batch.target.clone();
  data::denormalise(p, batch.scalings.at(0));
  data::denormalise(t, batch.scalings.at(0));
  return case_errors(p, t, batch.region, 0.5);
}

}  // namespace

Trainer::Trainer(const Config& config, Collective& ranks)
    : config_(config),
      ranks_(ranks),
      compute_type_(precision_type(config.precision)),
      progress_(ranks.rank() == 0),
      stop_(ranks, config.train.max_hours) {
  run_begin_s_ = last_log_s_ = now_s();
  if (config.data.root.empty())
    throw UsageError("data.root is not set: wanted the folder of the cases (--data.root=DIR)");
  cases_ = std::make_unique<Cases>(config.data, config.split, ranks);
  model_ = make_model(config, cases_->n_channels());
  cases_->require_extents(model_->min_extent(), config.model.levels);
  model_->set_collective(&ranks);
  arena_ = std::make_unique<nn::ParameterArena>(*model_, DType::f32, compute_type_);
  // Every rank starts from its own seed only in tests; whatever it started from, rank 0's weights
  // win.
  nn::initialise(*model_, config.train.seed);
  optimizer_ = make_optimizer(config.optim, *arena_);
  scaler_.emplace(scale_rule_of(config.scaler));
  sampler_.emplace(data::SamplerOptions{.n_samples = cases_->training().size(),
                                        .n_ranks = ranks.size(),
                                        .rank = ranks.rank(),
                                        .seed = config.train.seed,
                                        .shuffle = true,
                                        .tail = data::Tail::pad,
                                        .batch = config.train.batch});
  sampler_->require_samples();
  const int64_t window = config.train.batch * config.train.accumulate;
  updates_an_epoch_ = (sampler_->count() + window - 1) / window;
  total_updates_ = updates_an_epoch_ * config.train.epochs;
  reducer_ = std::make_unique<GradientReducer>(arena_->gradients(), arena_->leaves(), ranks,
                                               ReducerOptions{.op = ReduceOp::sum});
  updater_ = std::make_unique<apps::Updater>(
      *arena_, *optimizer_, *reducer_, schedule_of(config.optim, total_updates_, ranks.size()),
      config.optim.clip, compute_type_ == DType::f16 ? &*scaler_ : nullptr);
  loader_ = std::make_unique<data::Loader<Loaded>>(
      data::LoaderOptions{.n_threads = config.loader.threads, .queue_depth = config.loader.queue},
      [this](const data::Slot& slot) {
        const RngKey key{config_.train.seed,
                         rng_stream("augment", static_cast<uint64_t>(slot.epoch),
                                    static_cast<uint64_t>(slot.index))};
        return Loaded{slot, cases_->training().read(slot.index, data::WindowChoice::random(key))};
      },
      [this](int64_t index) { return cases_->training().name(index); });
  for (const std::string& name : loss_names(config.loss)) window_sums_.declare(name);
  const std::string dir = config.output.dir;
  ranks.agree("preparing " + dir, [&] {
    if (main()) claim_folder(config);
  });
  resume();
  std::vector<Tensor*> everything;
  Tensor weights = arena_->values().all();
  everything.push_back(&weights);
  for (const nn::NamedBuffer& b : nn::named_buffers(*model_)) everything.push_back(b.buffer);
  broadcast_buffers(ranks, everything);
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
  const int64_t batch = config_.train.batch * config_.train.accumulate * ranks_.size();
  log_info("unet3d: base ", config_.model.base, ", ", nn::parameter_count(*model_), " parameters, ",
           config_.model.norm, " norm, ", config_.precision, "; ", ranks_.size(), " rank",
           ranks_.size() > 1 ? "s" : "", " x ", apps::compute_threads(), " threads");
  log_info("data: ", cases_->describe());
  log_info("run: ", config_.train.epochs, " epochs x ", updates_an_epoch_,
           " updates, effective batch ", batch, ", peak learning rate ", updater_->schedule().peak,
           config_.optim.scale_lr == "linear"
               ? detail::join(" (", config_.optim.lr, " x ", ranks_.size(), " ranks)")
               : std::string(),
           ", writes to ", config_.output.dir);
  if (config_.model.norm == "batch" && ranks_.size() > 1)
    log_warn("batch norm with ", ranks_.size(),
             " ranks: each rank normalises with its own statistics; model.norm=sync_batch "
             "joins them");
  if (config_.train.batch == 1 && config_.model.norm == "batch")
    log_warn(
        "batch norm with batch 1: statistics of one sample; group or instance norm suit better");
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
    progress_.line("stopped by " + stop_.reason() + " after update " + std::to_string(updates()) +
                   " of " + std::to_string(total_updates_) + ": saved in " + config_.output.dir +
                   "; the same command with --resume goes on");
  progress_.line("trained " + std::to_string(updates()) + " updates in " +
                 apps::duration_text(now_s() - run_begin_s_) +
                 (position_.best_epoch < 0
                      ? std::string("; not validated yet")
                      : "; best validation loss " + brief(position_.best) + " after epoch " +
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
  loader_->start(sampler_->slots(position_.data));
  const int64_t epoch = position_.data.epoch, n = sampler_->options().n_samples;
  const int64_t window = config_.train.batch * config_.train.accumulate * ranks_.size();
  while (position_.data.epoch == epoch && !finished() && !stop_.due()) {
    // The last window of an epoch may be smaller; its gradient is the mean over what it holds.
    const int64_t samples = std::min(window, n - position_.data.position);
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
  updater_->begin_window();
  suspect_.clear();
  // What this rank takes: as much as every other rank, repeats (padding) included.
  int64_t left = (window_samples + ranks_.size() - 1) / ranks_.size();
  while (left > 0) {
    std::vector<Loaded> loaded;
    for (int64_t i = std::min(left, config_.train.batch); i > 0; --i) {
      std::optional<Loaded> next = loader_->next();
      BORA_CHECK(next, "the loader ended ", left, " samples early");
      loaded.push_back(std::move(*next));
    }
    left -= static_cast<int64_t>(loaded.size());
    reducer_->set_enabled(left == 0);  // one reduction a window
    forward_backward(loaded, window_samples);
  }
  const apps::UpdateReport report = updater_->finish_window(suspect_);
  samples_seen_ += window_samples;
  log_window(report);
}

void Trainer::forward_backward(const std::vector<Loaded>& loaded, int64_t window_samples) {
  std::vector<data::Sample> samples;
  for (const Loaded& l : loaded)
    if (!l.slot.padding) samples.push_back(l.sample);
  // A rank with nothing but repeats takes part with the weight 0, so that every rank makes the same
  // calls.
  const double real = static_cast<double>(samples.size());
  if (samples.empty()) samples.push_back(loaded.front().sample);
  const data::Batch batch = data::collate(samples);

  // What the network draws (dropout) depends on the sample's place in the epoch, not on the rank.
  const RngPosition draws{
      .seed = config_.train.seed,
      .base = rng_stream("step", static_cast<uint64_t>(loaded.front().slot.epoch),
                         static_cast<uint64_t>(loaded.front().slot.slot))};
  // The reducer adds the ranks up: each sample's gradient weighs 1 / (samples of the window).
  const double seed = updater_->loss_scale() * real / static_cast<double>(window_samples);
  backward(window_loss(batch, draws, real), Tensor::scalar<float>(static_cast<float>(seed)));
}

Tensor Trainer::window_loss(const data::Batch& batch, const RngPosition& draws, double weight) {
  const PrecisionScope precision(compute_type_);
  const auto run = [&] {
    const RngScope rng(draws);
    return compute_loss(config_.loss, model_->forward(batch.input), batch.target, batch.region);
  };
  const Loss loss = run();
  bool finite = true;
  for (const auto& [name, value] : loss.parts) {
    finite = finite && std::isfinite(value);
    if (weight > 0 && std::isfinite(value)) window_sums_.add(name, value * weight, weight);
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

void Trainer::log_window(const apps::UpdateReport& report) {
  if (report.skipped) {
    if (!main()) return;
    log_warn("update ", report.update + 1, " skipped: gradients overflowed in f16 at loss scale ",
             brief(report.loss_scale), "; now ", brief(scaler_->scale()));
    metrics_log_->write({{"kind", std::string("skipped")},
                         {"update", report.update},
                         {"epoch", position_.data.epoch},
                         {"loss_scale", report.loss_scale},
                         {"seconds", now_s() - run_begin_s_}});
    return;
  }
  const bool due = report.update % config_.output.log_every == 0 || finished() ||
                   report.update == total_updates_;
  if (report.clip < 0.01 && main())
    log_warn("update ", report.update, ": gradient norm ", brief(report.gradient_norm),
             " is over 100 times the clip of ", config_.optim.clip);
  if (!due) return;
  window_sums_.reduce(ranks_, "training loss");
  const double now = now_s();
  const double seconds = now - last_log_s_;
  const double rate = static_cast<double>(samples_seen_ - last_log_samples_) / seconds;
  const double wait = loader_->wait_s() - last_wait_s_;
  const double slowest_wait = ranks_.all_reduce(wait, ReduceOp::max, "data wait");
  if (main()) {
    const double epoch = static_cast<double>(position_.data.epoch) +
                         static_cast<double>(position_.data.position) /
                             static_cast<double>(sampler_->options().n_samples);
    std::vector<std::pair<std::string, data::JsonValue>> row{
        {"kind", std::string("train")},
        {"update", report.update},
        {"epoch", position_.data.epoch},
        {"lr", report.lr},
        {"gradient_norm", report.gradient_norm},
        {"clip_factor", report.clip},
        {"loss_scale", report.loss_scale},
        {"skipped", scaler_->skipped()},
        {"samples_per_s", rate},
        {"data_wait_s", slowest_wait},
        {"seconds", now - run_begin_s_}};
    for (const std::string& name : loss_names(config_.loss))
      row.emplace_back(name, window_sums_.mean(name));
    metrics_log_->write(row);
    progress_.update(static_cast<double>(report.update) / static_cast<double>(total_updates_),
                     "epoch " + fixed(epoch, 1) + "/" + std::to_string(config_.train.epochs) +
                         "  update " + std::to_string(report.update) + "/" +
                         std::to_string(total_updates_) + "  loss " +
                         fixed(window_sums_.mean("loss"), 4) + "  lr " + brief(report.lr) + "  " +
                         fixed(rate, 1) + " samples/s");
  }
  window_sums_.clear();
  last_log_s_ = now;
  last_log_samples_ = samples_seen_;
  last_wait_s_ = loader_->wait_s();
}

std::optional<bool> Trainer::validate() {
  if (stop_.stopping()) return {};  // the resumed run begins with it
  const data::Dataset& cases = cases_->validation();
  if (cases.size() == 0) {  // nothing to choose by: the last state counts as the best
    position_.best_epoch = position_.data.epoch;
    return true;
  }
  model_->set_training(false);
  const NoGrad no_grad;
  const PrecisionScope precision(compute_type_);
  MetricSums sums;
  for (const std::string& name : loss_names(config_.loss)) sums.declare(name);
  for (const char* name : {"absolute_error", "squared_error"}) sums.declare(name);
  const data::DistributedSampler sampler(data::SamplerOptions{.n_samples = cases.size(),
                                                              .n_ranks = ranks_.size(),
                                                              .rank = ranks_.rank(),
                                                              .shuffle = false,
                                                              .tail = data::Tail::uneven});
  bool told = false;  // to stop; other ranks may be through by then
  ranks_.agree("validation", [&] {
    for (const data::Slot& slot : sampler.slots({})) {
      told = apps::stop_signal() != 0;
      if (told) return;
      const data::Batch batch =
          data::collate({cases.read(slot.index, data::WindowChoice::centred())});
      const Tensor prediction = model_->forward(batch.input);
      const Loss loss = compute_loss(config_.loss, prediction, batch.target, batch.region);
      for (const auto& [name, value] : loss.parts) sums.add(name, value);
      const kernels::ErrorSums e = physical_errors(prediction, batch);
      BORA_CHECK(e.count > 0, "validation case ", batch.names.at(0),
                 " has no open cell: it cannot be scored");
      sums.add("absolute_error", e.abs, e.count);
      sums.add("squared_error", e.square, e.count);
    }
  });
  if (ranks_.all_reduce(told ? 1.0 : 0.0, ReduceOp::max, "validation left early") > 0) {
    stop_.stop_now();
    return {};
  }
  sums.reduce(ranks_, "validation");
  const double loss = sums.mean("loss");
  BORA_CHECK(std::isfinite(loss), "validation loss after epoch ", position_.data.epoch, " is ",
             loss, ": the run ends; the last good checkpoint stays in ", config_.output.dir);
  const bool best = position_.best_epoch < 0 || loss < position_.best;
  if (best) {
    position_.best = loss;
    position_.best_epoch = position_.data.epoch;
    position_.epochs_without_best = 0;
  } else {
    ++position_.epochs_without_best;
  }
  if (main()) {
    const double mae = sums.mean("absolute_error"), rmse = std::sqrt(sums.mean("squared_error"));
    std::vector<std::pair<std::string, data::JsonValue>> row{{"kind", std::string("validation")},
                                                             {"update", updates()},
                                                             {"epoch", position_.data.epoch},
                                                             {"mae_m_s", mae},
                                                             {"rmse_m_s", rmse},
                                                             {"best", best},
                                                             {"seconds", now_s() - run_begin_s_}};
    for (const std::string& name : loss_names(config_.loss))
      row.emplace_back(name, sums.mean(name));
    metrics_log_->write(row);
    progress_.line("epoch " + std::to_string(position_.data.epoch) + "/" +
                   std::to_string(config_.train.epochs) + "  validation loss " + fixed(loss, 4) +
                   "  MAE " + fixed(mae, 3) + " m/s  RMSE " + fixed(rmse, 3) + " m/s" +
                   (best ? "  (best)" : ""));
  }
  return best;
}

}  // namespace bora::unet3d
