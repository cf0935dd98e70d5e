// SPDX-License-Identifier: Apache-2.0
// What a Trainer measures and says: the log of updates, and validation.
#include <algorithm>
#include <cmath>
#include <exception>

#include "apps/common/text.hpp"
#include "apps/common/threads.hpp"
#include "apps/train/setup.hpp"
#include "apps/train/trainer.hpp"
#include "comm/rank_group.hpp"
#include "comm/watchdog.hpp"
#include "core/log.hpp"
#include "core/precision.hpp"
#include "core/profile.hpp"

namespace bora::train {

bool Trainer::run() {
  try {
    return train();
  } catch (const std::exception& e) {
    progress_.clear();
    if (main()) say_failed(e.what());
    throw;
  }
}

// What it was must be told, also where the log cannot take it.
void Trainer::say_failed(const std::string& message) {
  try {
    watch_->failed(message, updates(), position_.data.epoch);
  } catch (const std::exception& e) {
    if (message != e.what()) log_warn(e.what());
  }
}

void Trainer::begin_watch() {
  if (!main()) return;
  watch_->begin(*metrics_log_,
                {.update = updates(),
                 .epoch = position_.data.epoch,
                 .updates = total_updates_,
                 .updates_an_epoch = plan_->updates_an_epoch(),
                 .effective_batch = plan_->samples(),
                 .parameters = nn::parameter_count(model()),
                 .threads = apps::compute_threads()},
                *task_);
}

void Trainer::end_watch() {
  progress_.clear();
  if (main()) {
    if (const std::string cost = saves_->summary(now_s() - run_begin_s_); !cost.empty())
      progress_.line(cost);
    progress_.line(
        "trained " + std::to_string(updates()) + " updates in " +
        apps::duration_text(now_s() - run_begin_s_) +
        (!validation_ ? std::string("; without validation cases best.h5 is the last whole epoch")
         : position_.best_epoch < 0 ? std::string("; not validated yet")
                                    : "; best " + task_->judgement(position_.best) +
                                          " after epoch " + std::to_string(position_.best_epoch)));
  }
  const std::string reason = stop_.stopping()          ? "stopped by " + stop_.reason()
                             : position_.stopped_early ? "finished early: no better validation"
                             : position_.data.epoch < config_.train.epochs
                                 ? "stopped by train.max_updates"
                                 : "finished";
  watch_->finish(reason, samples_, updates(), position_.data.epoch);
}

void Trainer::show_progress(data::EpochPosition at, int64_t update) {
  const double done = static_cast<double>(update) / static_cast<double>(total_updates_);
  if (!last_row_ || !progress_.due()) return progress_.update(done);
  const double epoch =
      static_cast<double>(at.epoch) +
      static_cast<double>(at.position) / static_cast<double>(plan_->sampler().options().n_samples);
  progress_.update(done,
                   progress_parts(epoch, config_.train.epochs, update, total_updates_, *last_row_));
}

void Trainer::log_window(const apps::UpdateReport& report, data::EpochPosition at) {
  const RunWatch::Cost cost(*watch_);
  watch_->tick();
  show_progress(at, report.update);
  if (report.skipped) {
    if (!main()) return;
    log_warn("update ", report.update + 1, " skipped: gradients overflowed in f16 at loss scale ",
             apps::brief(report.loss_scale), "; now ", apps::brief(report.next_loss_scale));
    metrics_log_->write({{"kind", std::string("skipped")},
                         {"update", report.update},
                         {"epoch", at.epoch},
                         {"loss_scale", report.loss_scale},
                         {"seconds", now_s() - run_begin_s_}});
    return;
  }
  const bool due = report.update % config_.output.log_every == 0 ||
                   report.update == config_.train.max_updates || report.update == total_updates_;
  const double clip = config_.optim.clip;
  if (report.gradient_norm > 100 * (clip > 0 ? clip : 1.0) && main())
    log_warn("update ", report.update, ": gradient norm ", apps::brief(report.gradient_norm),
             clip > 0 ? detail::join(" is over 100 times the clip of ", clip)
                      : std::string(" is over 100, and optim.clip is off"));
  if (!due) return;
  const MetricSums losses = losses_->reduce(ranks_, report.window, "training loss");
  const apps::JobWindow job = apps::job_window(monitor_.window(), ranks_);
  // One or two steps say nothing yet: the first ones fill caches.
  const std::optional<int> slow =
      monitor_.window().steps < 5 ? std::nullopt : stragglers_.begins(job);
  if (main() && slow)
    log_warn(RankGroup::world()->who(*slow), " needs ", apps::brief(job.slowest_own_s),
             " s a step, the others ", apps::brief(job.median_own_s),
             " (median): they wait for it. Its host is slow, shares its cores, or reads slowly");
  if (main()) {
    std::vector<std::pair<std::string, data::JsonValue>> row{
        {"kind", std::string("train")},
        {"update", report.update},
        {"epoch", at.epoch},
        {"lr", report.lr},
        {"gradient_norm", report.gradient_norm},
        {"clip_factor", report.clip},
        {"loss_scale", report.loss_scale},
        {"skipped", compute_type_ == DType::f16 ? report.skipped_so_far : scaler_->skipped()},
        {"samples_per_s", job.samples_per_s},
        {"step_s", job.step_s},
        {"data_wait_share", job.data_wait_share},
        {"comm_wait_share", job.comm_wait_share},
        {"slowest_rank", job.slowest},
        {"slowest_rank_s", job.slowest_own_s},
        {"median_rank_s", job.median_own_s},
        {"seconds", now_s() - run_begin_s_}};
    for (const std::string& name : task_->loss_names()) row.emplace_back(name, losses.mean(name));
    watch_->row(row);
    watch_->report();
    last_row_ = {report.update, losses.mean("loss"), job.samples_per_s, report.lr};
    show_progress(at, report.update);
  }
}

std::vector<ScoredCase> Trainer::scored_cases(
    const std::vector<apps::OrderedSums::Part>& parts) const {
  std::vector<ScoredCase> cases;
  for (const apps::OrderedSums::Part& part : parts)
    cases.push_back({.index = part.place,
                     .name = task_->validation()->name(part.place),
                     .loss = part.sums.mean("loss"),
                     .scores = task_->scores(part.sums)});
  std::stable_sort(cases.begin(), cases.end(),
                   [](const ScoredCase& a, const ScoredCase& b) { return a.loss > b.loss; });
  return cases;
}

std::optional<bool> Trainer::validate() {
  if (stop_.stopping()) return {};  // the resumed run begins with it
  if (!validation_) {               // nothing to choose by: the last state counts as the best
    position_.best_epoch = position_.data.epoch;
    return true;
  }
  const double validation_begin_s = now_s();
  share_statistics();
  const LongSection section("validation");
  const std::unique_ptr<nn::Ema::Use> averaged = average_->use();
  const double waited_s = validation_->wait_s();
  std::vector<apps::OrderedSums::Part> parts;
  // The words of the training stand again before the next epoch's first row.
  const std::vector<std::string> told = progress_.parts();
  const std::optional<MetricSums> joined = validation_->run(
      ranks_, stop_,
      {.before =
           [&](int64_t index) {
             progress_.update(
                 static_cast<double>(updates()) / static_cast<double>(total_updates_),
                 {detail::join("epoch ", position_.data.epoch, "/", config_.train.epochs),
                  detail::join("validating case ", index + 1, "/", task_->validation()->size())});
           },
       // A save that failed ends the run: the ranks hear of it where they save.
       .leave = [&] { return saves_ && saves_->failed(); },
       .advice = advice()},
      &parts);
  progress_.put_back(told);
  epoch_times_.data_wait_s += validation_->wait_s() - waited_s;
  if (!joined) return {};
  const MetricSums& sums = *joined;
  const double loss = sums.mean("loss");
  const double judged = task_->judge(sums);
  const bool best = position_.best_epoch < 0 || judged < position_.best ||
                    (std::isnan(position_.best) && !std::isnan(judged));
  if (best) {
    position_.best = judged;
    position_.best_epoch = position_.data.epoch;
    position_.epochs_without_best = 0;
  } else {
    ++position_.epochs_without_best;
  }
  std::vector<ScoredCase> each;
  if (main()) {
    const RunWatch::Cost cost(*watch_);
    std::vector<std::pair<std::string, data::JsonValue>> row{
        {"kind", std::string("validation")},
        {"update", updates()},
        {"epoch", position_.data.epoch},
        {"best", best},
        {"weights", std::string(averaged ? "ema" : "model")},
        {"seconds", now_s() - run_begin_s_}};
    std::string figures;
    for (const NamedScore& score : task_->scores(sums)) {
      row.emplace_back(score.key, score.value);
      if (!score.in_line) continue;
      figures += "  " + score.label + " " +
                 (std::isnan(score.value) ? "-" : apps::fixed(score.value, 3)) +
                 (score.unit.empty() ? "" : " " + score.unit);
    }
    for (const std::string& name : task_->validation_loss_names())
      row.emplace_back(name, sums.mean(name));
    each = scored_cases(parts);
    watch_->cases(each, updates(), position_.data.epoch);
    watch_->row(row);
    progress_.line("epoch " + std::to_string(position_.data.epoch) + "/" +
                   std::to_string(config_.train.epochs) +
                   (averaged ? "  validation loss of the average " : "  validation loss ") +
                   apps::fixed(loss, 4) + figures + (best ? "  (best)" : ""));
  }
  draw_cases(each, now_s() - validation_begin_s);
  return best;
}

void Trainer::draw_cases(const std::vector<ScoredCase>& cases, double validation_s) {
  if (!main()) return;
  // Some three cases more than this rank's share of the validation.
  const double a_case_s = validation_s * ranks_.size() / static_cast<double>(cases.size());
  if (!watch_->pictures_due(3 * a_case_s) && !finished()) return;
  const NoGrad no_grad;
  const PrecisionScope precision(compute_type_);
  watch_->pictures([&] { return task_->pictures(cases, device_); });
}

void Trainer::log_epoch() {
  const EpochSummary summary = join_epoch(epoch_times_, device_, ranks_);
  if (!main()) return;
  data::JsonRecord row{
      {"kind", std::string("epoch")}, {"update", updates()}, {"epoch", position_.data.epoch}};
  for (auto& figure : epoch_figures(summary)) row.push_back(std::move(figure));
  watch_->row(row);
  progress_.line("epoch " + std::to_string(position_.data.epoch) + "/" +
                 std::to_string(config_.train.epochs) + "  " + epoch_text(summary));
}

}  // namespace bora::train
