// SPDX-License-Identifier: Apache-2.0
// What a run keeps: the state of a Trainer, and how it comes from and goes to checkpoints.
#include "apps/train/global_batch.hpp"
#include "apps/train/run_folder.hpp"
#include "apps/train/setup.hpp"
#include "apps/train/trainer.hpp"
#include "comm/watchdog.hpp"
#include "core/log.hpp"
#include "core/profile.hpp"
#include "data/run_checkpoints.hpp"
#include "kernels/cuda/conv3d_settings.hpp"

namespace bora::train {

void Trainer::state(StateVisitor& visitor) {
  {
    const StateVisitor::Group group(visitor, "model");
    nn::module_state(model(), visitor);
  }
  average_->state(visitor);
  task_->state(visitor);
  std::string text = task_->settings_text();
  visitor.value("config", text);
  convolution_plans(visitor);
  int64_t updates_made = updates();
  visitor.value("updates", updates_made);
  const StateVisitor::Group group(visitor, "training");
  {
    const StateVisitor::Group inner(visitor, "optimizer");
    optimizer_->state(visitor);
  }
  scaler_->state(visitor);
  const nn::Schedule& schedule = updater_->schedule();
  RunRecord run{total_updates_, ranks_.size(), schedule.begin,
                schedule.total, lr_ranks_,     position_};
  run.state(visitor, plan_->sampler());
  if (!visitor.loading()) return;
  position_ = run.position;
  if (updates() > 0)  // not the saved start of a run to come
    require_same_samples(task_->compare_settings(text, "the checkpoint").run.train,
                         static_cast<int>(run.world_size), config_.train, ranks_.size());
  saved_updates_ = updates();
  lr_ranks_ = run.lr_ranks;
  if (run.world_size != ranks_.size() && main())
    log_warn("the checkpoint was written by ", run.world_size, " ranks, this run has ",
             ranks_.size(), ": it goes on with the same samples, ",
             plan_->sharded() ? "and with the same bits as long as those were reproducible too"
                              : "but not with the same bits");
  // The rate belongs to the run: a linear rule counts the ranks that it began with.
  nn::Schedule now = schedule_of(config_.optim, run.schedule_total, static_cast<int>(lr_ranks_));
  now.begin = run.schedule_begin;
  if (run.total_updates != total_updates_) extend(now, run.total_updates, text);
  updater_->set_schedule(now);
}

// Which engine of cuDNN computes which convolution: with the same ones a resumed run has the same
// bits.  A file of a run on the CPU has no such text, and a run on the CPU has no use for it.
void Trainer::convolution_plans(StateVisitor& visitor) const {
  if (visitor.loading() ? !file_has_plans_ : device_ == cpu()) return;
  std::string text = visitor.loading() ? std::string() : kernels::cuda::plan_file_text();
  visitor.value("convolution_plans", text);
  if (visitor.loading() && device_ != cpu() && !text.empty())
    kernels::cuda::load_plan_file_text(text);
}

void Trainer::extend(nn::Schedule& schedule, int64_t total, const std::string& settings) const {
  const RunConfig old = task_->compare_settings(settings, "the checkpoint").run;
  if (total != old.train.epochs * plan_->updates_an_epoch())
    throw UsageError(detail::join(
        "the checkpoint belongs to a run of ", total, " updates, this one has ", total_updates_,
        ": the learning rate would jump. Keep train.batch x train.accumulate x ranks, or start a "
        "new run in another output.dir"));
  const std::string& rule = config_.train.extend;
  if (rule == "refuse")
    throw UsageError(detail::join(
        "the checkpoint belongs to a run of ", old.train.epochs, " epochs, this one has ",
        config_.train.epochs, ": the learning rate would jump. Keep train.epochs, or say what ",
        "becomes of the rate: --train.extend=hold, stretch or restart (--help)"));
  if (rule == "stretch") {
    schedule.begin = 0;
    schedule.total = total_updates_;
  } else if (rule == "restart") {
    schedule.begin = updates();
    schedule.total = total_updates_ - updates();
    if (schedule.total <= 0)
      throw UsageError(detail::join("train.extend=restart: ", updates(), " updates are made, and ",
                                    config_.train.epochs, " epochs have only ", total_updates_,
                                    ": raise train.epochs"));
  }
  if (main())
    log_info("train.extend=", rule, ": ", old.train.epochs, " -> ", config_.train.epochs,
             " epochs, ", total_updates_, " updates; the next learning rate is ",
             nn::learning_rate(schedule, updates()));
}

// All ranks meet, so that they learn together of a save that failed; rank 0 then copies the state,
// and a thread of its own does the rest.  Row 160: what this takes is what training waits.
void Trainer::save(std::vector<std::string> names) {
  const double begin_s = now_s();
  take_all_reports();
  const LongSection section("saving");  // a slow disk makes a save wait for the one before it
  ranks_.agree("saving a checkpoint", [&] {
    if (!main()) return;
    saves_->report(*metrics_log_, run_begin_s_);
    saves_->save(
        names, [&](StateVisitor& v) { state(v); }, {updates(), position_.data.epoch}, begin_s);
  });
}

void Trainer::save_last(Save kind, bool best) {
  const auto place = std::pair(position_.data, position_.validation_due);
  if (kind == Save::leaving && !best && saved_ == place) return;
  std::vector<std::string> names;
  if (best) names.emplace_back(data::kBestCheckpoint);
  names.emplace_back(data::kLastCheckpoint);
  if (kind == Save::periodic && config_.output.keep > 0)
    names.push_back(data::update_checkpoint(updates()));
  save(std::move(names));
  saved_ = place;
}

void Trainer::finish_saves() {
  const LongSection section("finishing the saves");
  ranks_.agree("saving a checkpoint", [&] {
    if (main()) saves_->finish(*metrics_log_, run_begin_s_);
  });
}

void Trainer::resume() {
  if (!config_.resume) return;
  // Rank 0 chooses the file, so that all ranks read the same one.
  std::string path;
  ranks_.agree("looking for a checkpoint in " + config_.output.dir, [&] {
    if (main()) path = data::latest_valid(config_.output.dir).value_or("");
  });
  path = ranks_.broadcast_text(path, 0, "checkpoint path");
  if (path.empty()) {
    if (main()) log_info("no checkpoint in ", config_.output.dir, ": starting from the beginning");
    return;
  }
  ranks_.agree("resuming", [&] {
    with_context("resuming from " + path, [&] {
      data::CheckpointReader reader(path);
      file_has_plans_ = reader.has("convolution_plans");
      average_->expect(reader.has("ema_begin"));
      const OldSettings old = task_->compare_settings(reader.peek<std::string>("config"), path);
      for (const std::string& line : old.changes)
        if (main() && !line.starts_with("train.extend:"))  // what it did is told where it acts
          log_info("setting changed since the checkpoint: ", line);
      state(reader);
      reader.finish();
    });
  });
  if (main())
    log_info("resumed from ", path, ": ", updates(), " of ", total_updates_,
             " updates done, epoch ", position_.data.epoch, ", ", position_.data.position,
             " samples into it");
}

}  // namespace bora::train
