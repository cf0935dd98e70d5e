// SPDX-License-Identifier: Apache-2.0
// Trainer: the loop.  load, forward, backward, reduce, step, log, save.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apps/common/monitor.hpp"
#include "apps/common/ordered_sums.hpp"
#include "apps/common/progress.hpp"
#include "apps/common/stop.hpp"
#include "apps/common/updater.hpp"
#include "apps/common/window_plan.hpp"
#include "apps/unet3d/cases.hpp"
#include "apps/unet3d/config.hpp"
#include "apps/unet3d/loss.hpp"
#include "apps/unet3d/model.hpp"
#include "apps/unet3d/run_record.hpp"
#include "comm/gradient_exchange.hpp"
#include "core/collective.hpp"
#include "data/batch.hpp"
#include "data/jsonl.hpp"
#include "data/loader.hpp"

namespace bora::unet3d {

/// One training run on one rank.  All functions are collective.
class Trainer {
 public:
  /// Opens the data, builds the network, resumes if asked to.  Throws UsageError or Error on all
  /// ranks.
  Trainer(const Config& config, Collective& ranks);
  ~Trainer();

  /// Trains to the end, to train.max_updates, or until early stopping; false: it saved and left
  /// before, because of a signal or train.max_hours.
  bool run();

  /// Updates made and their total.
  int64_t updates() const { return optimizer_->updates(); }
  int64_t total_updates() const { return total_updates_; }
  const Position& position() const { return position_; }
  nn::ParameterArena& arena() { return *arena_; }
  UNet3d& model() { return *model_; }
  const GradientExchange::Counters& exchange_counters() const { return exchange_->counters(); }

 private:
  struct Loaded {
    data::Slot slot;
    data::Sample sample;
  };
  void announce() const;
  void train_epoch();
  void train_window(int64_t window_samples);
  void forward_backward(const std::vector<Loaded>& loaded, int64_t window_samples);
  Tensor window_loss(const data::Batch& batch, const RngPosition& draws, const data::Slot& first,
                     double weight);
  void log_window(const apps::UpdateReport& report);
  std::optional<bool> validate();  // whether it is the best so far; nothing: told to stop
  void end_epoch(bool best);
  void share_statistics();
  void save(const std::string& name);
  void save_last() { save("last.h5"); }
  void state(StateVisitor& visitor);
  void extend(nn::Schedule& schedule, int64_t total, const std::string& settings) const;
  void resume();
  bool finished() const;
  bool main() const { return ranks_.rank() == 0; }

  Config config_;
  Collective& ranks_;
  std::unique_ptr<Cases> cases_;
  std::unique_ptr<UNet3d> model_;
  std::unique_ptr<nn::ParameterArena> arena_;
  std::unique_ptr<nn::Optimizer> optimizer_;
  std::optional<nn::GradScaler> scaler_;  // used with fp16 only, saved always
  DType compute_type_;                    // of class `half` ops
  std::optional<apps::WindowPlan> plan_;
  std::unique_ptr<GradientExchange> exchange_;
  std::unique_ptr<apps::Updater> updater_;
  std::unique_ptr<data::Loader<Loaded>> loader_;
  std::unique_ptr<data::JsonlWriter> metrics_log_;
  apps::Progress progress_;
  apps::StopWatcher stop_;
  Position position_;
  int64_t total_updates_ = 0;
  std::optional<apps::OrderedSums> losses_;  // since the last line of the log
  std::string suspect_;  // what went wrong first in this window's forward passes
  apps::Monitor monitor_;
  apps::StragglerWatch stragglers_;
  double run_begin_s_ = 0;
  int64_t lr_ranks_ = 1;  // that the rule optim.scale_lr counts: those of the run's beginning
  double save_s_ = 0;     // rank 0: spent on checkpoints, of which there were n_saves_
  int64_t n_saves_ = 0;
};

}  // namespace bora::unet3d
