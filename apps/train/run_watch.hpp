// SPDX-License-Identifier: Apache-2.0
// RunWatch: what a run leaves for people to look at: rows of the log, TensorBoard's events, the
// report, the figures of its end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "apps/common/usage.hpp"
#include "apps/train/config.hpp"
#include "apps/train/task.hpp"
#include "core/collective.hpp"
#include "core/profile.hpp"
#include "data/jsonl.hpp"
#include "data/tensorboard.hpp"

namespace bora::train {

/// What the row "start" of the log says beside what RunWatch finds out itself.
struct RunFacts {
  int64_t update = 0, epoch = 0;  ///< where this process begins
  int64_t updates = 0, updates_an_epoch = 0, effective_batch = 0;
  int64_t parameters = 0;
  int threads = 1;
};

/// All of it happens on rank 0, and what takes long in a thread of its own, from files: the report
/// and its pictures, at a validation or between them, not before a minute has passed since the last
/// one, or a tenth of the run's time (10 minutes at most), or 200 times what the last one took.
/// What fails there (a full disk) is warned of, once, and the run goes on: only metrics.jsonl is
/// worth its end.
class RunWatch {
 public:
  /// Collective.  Counts time and energy from here on.
  RunWatch(const RunConfig& config, Collective& ranks, Device device);
  ~RunWatch();
  RunWatch(const RunWatch&) = delete;
  RunWatch& operator=(const RunWatch&) = delete;

  /// Rank 0 only, as the others below unless they say something else: the log is open.  Logs the
  /// row "start", and opens an event file that goes on behind facts.update.
  void begin(data::JsonlWriter& log, const RunFacts& facts, const Task& task);

  /// Logs a row of the kind "train", "validation" or "epoch", and its numbers to TensorBoard.
  void row(const data::JsonRecord& row);
  /// Logs rows of the kind "case", in the order given, 500 at most; and once before them what
  /// people call the scores, as rows of the kind "score".
  void cases(const std::vector<ScoredCase>& cases, int64_t update, int64_t epoch);

  /// On every rank, at every update: reads counters of energy.
  void tick() { usage_.sample(); }
  /// Whether new pictures may be made now, whose making would take training about `cost_s`.
  bool pictures_due(double cost_s) const {
    return pictures_work_ && due_since(last_pictures_s_, cost_s);
  }
  /// Logs the pictures that `make` gives, and draws them beside the run, and then the report.
  void pictures(const std::function<std::vector<Picture>()>& make);
  /// Writes the report beside the run, if it is due.
  void report();

  /// While it lives, time counts as spent on logging instead of training: "watch_s" of the row
  /// "end".  (That of the pictures' predictions is "pictures_s".)
  class Cost {
   public:
    explicit Cost(RunWatch& watch) : watch_(watch), begin_s_(now_s()) {}
    ~Cost() { watch_.watch_s_ += now_s() - begin_s_; }
    Cost(const Cost&) = delete;
    Cost& operator=(const Cost&) = delete;

   private:
    RunWatch& watch_;
    double begin_s_;
  };

  /// Collective, at the run's end: logs the row "end", prints its lines, writes the last report.
  /// `reason`: "finished", "stopped by a signal".  `samples` of all ranks in this process.
  void finish(const std::string& reason, double samples, int64_t update, int64_t epoch);
  /// Rank 0, where finish() will not come: the row "end" with "failed: <message>", and the report.
  void failed(const std::string& message, int64_t update, int64_t epoch);

 private:
  template <class Body>
  void try_once(std::string_view what, bool& works, Body&& body);
  bool due_since(double last_s, double cost_s) const;
  void take_warnings();
  void start_job(std::vector<Picture> pictures);
  void join_job();
  bool end_job();  // false: it hangs, and was left to itself
  void last_report();
  std::string folder() const { return config_.output.dir; }

  const RunConfig config_;
  Collective& ranks_;
  Device device_;
  apps::UsageMeter usage_;
  double begin_s_, watch_s_ = 0, pictures_s_ = 0;
  data::JsonlWriter* log_ = nullptr;
  std::optional<data::EventWriter> events_;
  int64_t update_ = 0, epoch_ = 0;  // of the latest row

  // The thread, what it works on, and what came of it.
  std::thread job_;
  struct Job;
  std::shared_ptr<Job> state_;  // the thread's too
  double last_report_s_, last_pictures_s_, report_cost_s_ = 0;
  bool events_work_ = true, report_works_ = true, pictures_work_ = true, scores_told_ = false;
};

}  // namespace bora::train
