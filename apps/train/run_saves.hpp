// SPDX-License-Identifier: Apache-2.0
// RunSaves: the checkpoints of a run on the rank that writes them, and what they cost.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "apps/train/config.hpp"
#include "data/checkpoint_saver.hpp"
#include "data/jsonl.hpp"

namespace bora::train {

/// Rank 0's: saves are written by a thread while training goes on.  All ranks must learn together
/// that a save failed or is due by the clock: needs_meeting() says when.
class RunSaves {
 public:
  /// `may_write`: throws, in the writer's thread before each file, where the folder is another
  /// run's by now.  `read_limit_s`: a read that holds HDF5's lock for longer hangs, and a save that
  /// waits behind it fails, naming its file; 0: none does.
  explicit RunSaves(const OutputConfig& output, std::function<void()> may_write = {},
                    double read_limit_s = 0);

  /// What the saves are made for.
  struct Point {
    int64_t update, epoch;
  };
  /// Copies the state and has it written under `names`; with last.h5 among them the minutes begin
  /// anew.  `begin_s` (now_s()): since when training waits for this save.  Throws what an earlier
  /// one failed with.
  void save(const std::vector<std::string>& names, const data::StateFunction& state, Point point,
            double begin_s);

  /// Whether output.checkpoint_minutes have gone by since the last save, or one has failed, or, as
  /// is looked now and then, would.
  bool needs_meeting() const;
  bool failed() const { return saver_.failed(); }

  /// Writes a row for each file that was finished since the last call, or skipped for a newer one.
  /// Throws what failed.
  void report(data::JsonlWriter& log, double run_begin_s);
  /// Waits until all is written, then as report().
  void finish(data::JsonlWriter& log, double run_begin_s);
  /// "3 checkpoints: training waited 0.04 s for them, 0.1 % of the run; ..." or nothing.
  std::string summary(double run_s) const;

 private:
  void write_rows(const std::vector<data::CheckpointSaver::Saved>& saved, data::JsonlWriter& log,
                  double run_begin_s);

  bool would_fail() const;

  double every_s_;  // infinity: never
  std::function<void()> may_write_;
  mutable double looked_s_;
  double last_s_;  // when last.h5 was last saved
  std::string folder_;
  struct Save {
    Point point;
    double wait_s;
    size_t n_files;  // not reported yet
  };
  std::map<int64_t, Save> saves_;  // by ticket
  int64_t n_saves_ = 0, n_files_ = 0, n_skipped_ = 0;
  double wait_s_ = 0, write_s_ = 0;
  data::CheckpointSaver saver_;
};

}  // namespace bora::train
