// SPDX-License-Identifier: Apache-2.0
// Trainer: the loop.  load, forward, backward, reduce, step, log, save.
#pragma once

#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/monitor.hpp"
#include "apps/common/ordered_sums.hpp"
#include "apps/common/progress.hpp"
#include "apps/common/stop.hpp"
#include "apps/common/updater.hpp"
#include "apps/common/window_plan.hpp"
#include "apps/train/config.hpp"
#include "apps/train/ema.hpp"
#include "apps/train/epoch_summary.hpp"
#include "apps/train/feed.hpp"
#include "apps/train/loss_log.hpp"
#include "apps/train/run_lock.hpp"
#include "apps/train/run_record.hpp"
#include "apps/train/run_saves.hpp"
#include "apps/train/run_watch.hpp"
#include "apps/train/task.hpp"
#include "apps/train/validation.hpp"
#include "comm/gradient_exchange.hpp"
#include "core/collective.hpp"
#include "core/step_graph.hpp"
#include "data/jsonl.hpp"

namespace bora::train {

/// Where a run computes, and over what its ranks' tensors travel.
struct ComputePlace {
  Device device = cpu();
  /// All ranks, for tensors on the device: gradients, weights, statistics of batch norms.  What is
  /// on the host by nature (losses, scores, agreements, stops) travels over the host's group.
  /// nullptr: the host's group on the CPU, a group of one for one rank.  Outlives the trainer.
  Collective* tensors = nullptr;
};

/// A group of one for tensors on the place's device, where the place has no group and needs one;
/// nullptr on the CPU.  Throws Error if there are more ranks than one.
std::unique_ptr<Collective> group_of_one(const Collective& ranks, const ComputePlace& place);

/// One training run of a Task on one rank.  All functions are collective.
class Trainer {
 public:
  using MakeTask = std::function<std::unique_ptr<Task>()>;
  /// Checks the settings, makes the task, resumes if asked to.  `ranks`: all, for host memory.
  /// Throws UsageError or Error on all ranks.
  Trainer(const MakeTask& make_task, const RunConfig& config, Collective& ranks,
          const ComputePlace& place = {});
  virtual ~Trainer();

  /// Trains to the end, to train.max_updates, or until early stopping; false: it saved and left
  /// before, because of a signal or train.max_hours.  A start makes at least one update before it
  /// leaves (unless it has to validate first), so that a job whose starts are all signalled early
  /// gets on.
  bool run();

  /// Updates made and their total.
  int64_t updates() const { return optimizer_->updates(); }
  int64_t total_updates() const { return total_updates_; }
  const Position& position() const { return position_; }
  nn::ParameterArena& arena() { return *arena_; }
  Task& task() { return *task_; }
  nn::Module& model() { return task_->model(); }
  RunAverage& average() { return *average_; }
  const GradientExchange::Counters& exchange_counters() const { return exchange_->counters(); }
  /// The step's graph, for tests: nullptr where the step is never captured.
  const StepGraph* step_graph() const { return graph_ ? &*graph_ : nullptr; }

 private:
  void announce() const;
  void say_why_finished() const;
  void say_end();
  void train_epoch();
  bool told_to_leave();
  void train_window(int64_t window_samples);
  bool graph_fits(int64_t window_samples) const;
  void run_graph(const MicroStep& step, int64_t window_samples);
  Loss forward_backward(const MicroStep& step, int64_t k, int64_t window_samples);
  Loss forward(const MicroStep& step);
  std::string find_suspect(const MicroStep& step);
  std::string find_suspect_again(int64_t window);
  void compute_again(data::EpochPosition at, std::string& suspect);
  std::string advice() const;
  void take_reports(int64_t up_to);
  void take_all_reports() { take_reports(std::numeric_limits<int64_t>::max()); }
  int64_t updates_at_most() const { return updates() + updater_->pending(); }
  bool train();
  void begin_watch();
  void say_failed(const std::string& message);
  void end_watch();
  void show_progress(data::EpochPosition at, int64_t update);
  void log_window(const apps::UpdateReport& report, data::EpochPosition at);
  std::vector<ScoredCase> scored_cases(const std::vector<apps::OrderedSums::Part>& parts) const;
  void draw_cases(const std::vector<ScoredCase>& cases, double validation_s);
  std::optional<bool> validate();  // whether it is the best so far; nothing: told to stop
  void end_epoch(bool best);
  void log_epoch();
  enum class Save { periodic, leaving };
  void save_progress(Save kind, bool best = false);
  void share_statistics();
  void save(std::vector<std::string> names);
  void save_last(Save kind, bool best = false);
  void finish_saves();
  void state(StateVisitor& visitor);
  void convolution_plans(StateVisitor& visitor) const;
  void extend(nn::Schedule& schedule, int64_t total, const std::string& settings) const;
  void resume();
  bool finished() const;
  bool main() const { return ranks_.rank() == 0; }

  RunConfig config_;
  Collective& ranks_;
  Device device_;
  std::unique_ptr<Collective> alone_;  // on a device, for one rank
  Collective& tensors_;                // ComputePlace::tensors
  std::unique_ptr<Task> task_;
  std::unique_ptr<nn::ParameterArena> arena_;
  std::unique_ptr<nn::Optimizer> optimizer_;
  std::optional<RunAverage> average_;     // of the weights: train.ema
  std::optional<nn::GradScaler> scaler_;  // used with fp16 only, saved always
  DType compute_type_;                    // of class `half` ops
  std::optional<apps::WindowPlan> plan_;
  std::unique_ptr<GradientExchange> exchange_;
  std::unique_ptr<apps::Updater> updater_;
  std::unique_ptr<BatchFeed> feed_;
  std::unique_ptr<Validation> validation_;  // nullptr: nothing to validate
  std::unique_ptr<data::JsonlWriter> metrics_log_;
  std::optional<RunWatch> watch_;
  double samples_ = 0;  // of all ranks, trained with by this process
  apps::Progress progress_;
  std::optional<LastRow> last_row_;
  apps::StopWatcher stop_;
  Position position_;
  int64_t total_updates_ = 0;
  std::optional<LossLog> losses_;  // since the last line of the log
  // Windows whose report has not come yet: ticket, and where they begin.
  struct Window {
    int64_t ticket;
    data::EpochPosition at;
  };
  std::deque<Window> windows_;
  std::optional<StepGraph> graph_;  // where train.step_graph and the settings allow it
  apps::Monitor monitor_;
  apps::StragglerWatch stragglers_;
  double run_begin_s_ = 0, setup_s_ = 0;
  EpochTimes epoch_times_;
  int64_t windows_made_ = 0;    // by this start
  int64_t saved_updates_ = -1;  // of the newest checkpoint that was handed in or read; -1: none
  bool unsaved_ = false;        // last.h5 is behind
  int64_t lr_ranks_ = 1;        // that the rule optim.scale_lr counts: those of the run's beginning
  std::shared_ptr<RunLock> lock_;                              // rank 0: of output.dir
  std::optional<RunSaves> saves_;                              // rank 0
  std::optional<std::pair<data::EpochPosition, bool>> saved_;  // last.h5: place, validation due
  bool file_has_plans_ = false;  // the checkpoint to resume from: convolution plans
};

}  // namespace bora::train
