// SPDX-License-Identifier: Apache-2.0
// What a Trainer measures and says: the log of updates, and validation.
#include <cmath>

#include "apps/common/text.hpp"
#include "apps/train/setup.hpp"
#include "apps/train/trainer.hpp"
#include "comm/rank_group.hpp"
#include "comm/watchdog.hpp"
#include "core/log.hpp"
#include "core/precision.hpp"
#include "core/profile.hpp"

namespace bora::train {
void Trainer::log_window(const apps::UpdateReport& report, data::EpochPosition at) {
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
  const std::optional<int> slow = stragglers_.begins(job);
  if (main() && slow)
    log_warn(RankGroup::world()->who(*slow), " needs ", apps::brief(job.slowest_own_s),
             " s a step, the others ", apps::brief(job.median_own_s),
             " (median): they wait for it. Its host is slow, shares its cores, or reads slowly");
  if (main()) {
    const double epoch = static_cast<double>(at.epoch) +
                         static_cast<double>(at.position) /
                             static_cast<double>(plan_->sampler().options().n_samples);
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
    metrics_log_->write(row);
    progress_.update(static_cast<double>(report.update) / static_cast<double>(total_updates_),
                     "epoch " + apps::fixed(epoch, 1) + "/" + std::to_string(config_.train.epochs) +
                         "  update " + std::to_string(report.update) + "/" +
                         std::to_string(total_updates_) + "  loss " +
                         apps::fixed(losses.mean("loss"), 4) + "  lr " + apps::brief(report.lr) +
                         "  " + apps::fixed(job.samples_per_s, 1) + " samples/s");
  }
}

std::optional<bool> Trainer::validate() {
  if (stop_.stopping()) return {};  // the resumed run begins with it
  const data::Dataset* cases = task_->validation();
  if (cases == nullptr ||
      cases->size() == 0) {  // nothing to choose by: the last state counts as the best
    position_.best_epoch = position_.data.epoch;
    return true;
  }
  share_statistics();
  const LongSection section("validation");
  model().set_training(false);
  const std::unique_ptr<nn::Ema::Use> averaged = average_->use();
  const NoGrad no_grad;
  const PrecisionScope precision(compute_type_);
  std::vector<std::string> names = task_->validation_loss_names();
  const std::vector<std::string> score_names = task_->score_names();
  names.insert(names.end(), score_names.begin(), score_names.end());
  apps::OrderedSums scores(names);
  const data::DistributedSampler sampler(data::SamplerOptions{.n_samples = cases->size(),
                                                              .n_ranks = ranks_.size(),
                                                              .rank = ranks_.rank(),
                                                              .shuffle = false,
                                                              .tail = data::Tail::uneven});
  bool told = false;  // to stop; other ranks may be through by then
  ranks_.agree("validation", [&] {
    for (const data::Slot& slot : sampler.slots({})) {
      // A save that failed ends the run: the ranks hear of it where they save.
      told = apps::stop_signal() != 0 || (saves_ && saves_->failed());
      if (told) return;
      const data::Batch batch =
          data::collate({data::read_sample(*cases, slot.index, data::WindowChoice::centred())});
      const Validated result = task_->validate(batch, device_);
      std::vector<double> values, counts(result.loss.parts.size(), 1.0);
      for (size_t i = 0; i < result.loss.parts.size(); ++i) values.push_back(result.loss.value(i));
      values.insert(values.end(), result.sums.begin(), result.sums.end());
      counts.insert(counts.end(), result.counts.begin(), result.counts.end());
      scores.add(slot.index, values, counts);
    }
  });
  if (ranks_.all_reduce(told ? 1.0 : 0.0, ReduceOp::max, "validation left early") > 0) {
    stop_.stop_now();
    return {};
  }
  const MetricSums sums = scores.reduce(ranks_, "validation");
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
      figures += "  " + score.label + " " + apps::fixed(score.value, 3) +
                 (score.unit.empty() ? "" : " " + score.unit);
    }
    for (const std::string& name : task_->validation_loss_names())
      row.emplace_back(name, sums.mean(name));
    metrics_log_->write(row);
    progress_.line("epoch " + std::to_string(position_.data.epoch) + "/" +
                   std::to_string(config_.train.epochs) +
                   (averaged ? "  validation loss of the average " : "  validation loss ") +
                   apps::fixed(loss, 4) + figures + (best ? "  (best)" : ""));
  }
  return best;
}

}  // namespace bora::train
