// SPDX-License-Identifier: Apache-2.0
// Task: what is trained.  A network, its cases and its loss; the Trainer does the rest.
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "apps/train/config.hpp"
#include "comm/metric_sums.hpp"
#include "core/collective.hpp"
#include "core/state.hpp"
#include "core/tensor.hpp"
#include "data/batch.hpp"
#include "data/dataset.hpp"
#include "nn/module.hpp"

namespace bora::train {

struct Loss {
  Tensor total;  ///< (), on the tape: what backward begins with, a mean over the batch's samples
  /// In the order of Task::loss_names(), the total first: each () f32 on the device, off the tape,
  /// for the log.  Reading one waits for the device.
  std::vector<std::pair<std::string, Tensor>> parts;
  double value(size_t part) const { return parts.at(part).second.item(); }
};

/// What a validation learns from one case.
struct Validated {
  Loss loss;
  /// One entry for each of Task::score_names(): what this case adds to the sum, and to the count
  /// that the sum is divided by (cells, say).
  std::vector<double> sums, counts;
};

/// One figure of a validation, for people and for the log.
struct NamedScore {
  std::string key;    ///< in metrics.jsonl: "mae_m_s"
  std::string label;  ///< in a line: "MAE"
  std::string unit;   ///< "m/s"; empty: a pure number
  double value = 0;
  bool in_line = true;  ///< also in the line for people, which has room for a few
};

/// A case of a validation, by itself.
struct ScoredCase {
  int64_t index = 0;  ///< in Task::validation()
  std::string name;
  double loss = 0;
  std::vector<NamedScore> scores;
};

/// A picture for the report of a run.
struct Picture {
  std::string name;   ///< of its file: letters, digits, "-" and "_"
  std::string title;  ///< "Case 15VF20, the hardest"
  /// Writes it as a PNG to the path.  Called later and in another thread: it may use what it holds,
  /// nothing of the network or of the Trainer.
  std::function<void(const std::string& path)> draw;
};

/// The settings of a run that wrote a checkpoint.
struct OldSettings {
  RunConfig run;
  std::vector<std::string> changes;  ///< what is different now, a line each: "key: old -> new"
};

/// A pure description with one instance on each rank.  The Trainer decides when its functions are
/// called, on all ranks alike; nothing in here needs to know how many ranks there are.
class Task {
 public:
  virtual ~Task() = default;

  /// The network.  Names of its parameters and buffers are those of the checkpoint.
  virtual nn::Module& model() = 0;
  virtual const data::Dataset& training() const = 0;
  /// Chances of the training samples for train.sampling = weighted, one each, and within a group
  /// for geometry.  Unless overridden: none, all alike.
  virtual std::vector<double> sample_weights() const { return {}; }
  /// nullptr, or a data set of no cases: nothing is validated, and the last state is the best.
  virtual const data::Dataset* validation() const { return nullptr; }

  /// "loss" first, then its parts, under honest names.
  virtual std::vector<std::string> loss_names() const { return {"loss"}; }
  /// Those of validate(): other ones where training has losses of its own (deep supervision).
  virtual std::vector<std::string> validation_loss_names() const { return loss_names(); }
  /// The loss of a batch whose input, target and region are on the network's device; a batch of no
  /// samples (N = 0) has some finite loss too.  A mean over samples: a rank's share is weighed by
  /// how many it has.  Precision and random numbers are set by the caller.
  virtual Loss loss(const data::Batch& batch) = 0;

  /// Sums that a validation joins over cases and ranks beside the loss's parts.
  virtual std::vector<std::string> score_names() const { return {}; }
  /// Of a batch of one case on the host, without a tape, the network in evaluation mode.  Unless
  /// overridden: the loss alone.
  virtual Validated validate(const data::Batch& batch, Device device);
  /// The formulas: from the joined sums to figures.
  virtual std::vector<NamedScore> scores(const MetricSums& sums) const;

  /// What decides which validation is the best, for best.h5 and early stopping: the smaller the
  /// better.  NaN: no validation at all is worse.
  virtual double judge(const MetricSums& sums) const { return sums.mean("loss"); }
  /// How people call that: "validation loss"; with a value of judge(): "validation loss 0.12".
  virtual std::string judged_by() const { return "validation loss"; }
  virtual std::string judgement(double value) const;

  /// Pictures of some cases of a validation, the hardest case first in `cases` (at least one).
  /// Called on rank 0 now and then, as validate() is: without a tape, in evaluation mode.  Few: all
  /// ranks wait for the predictions.
  virtual std::vector<Picture> pictures(const std::vector<ScoredCase>& cases, Device device) {
    static_cast<void>(cases);
    static_cast<void>(device);
    return {};
  }

  /// The group for statistics over all ranks (sync_batch); called before the first forward.  Unless
  /// overridden: every synchronised batch norm in the network gets it.
  virtual void set_collective(Collective* ranks);
  /// What a checkpoint keeps beside the network and the run: a normalisation, say.  Loading must
  /// refuse what would change the meaning of the weights.
  virtual void state(StateVisitor& visitor) { static_cast<void>(visitor); }

  /// Before the first update of a run that goes on from no checkpoint: what is computed from the
  /// training data and kept by state(), a normalisation say.  Collective.  If it takes long, it
  /// calls apps::leave_if_told() now and then.
  virtual void prepare(Collective& ranks) { static_cast<void>(ranks); }

  /// All settings that make the same run again, as TOML (train::settings_text).
  virtual std::string settings_text() const = 0;
  /// `text`: what settings_text() gave when the checkpoint `where` was written.  Throws UsageError
  /// for a change with which the run cannot go on, Error for text that does not parse.
  virtual OldSettings compare_settings(const std::string& text, const std::string& where) const = 0;

  /// Why the steps of loss() cannot be captured into a graph and replayed on a GPU; empty: they do
  /// the same device work each time, and nothing on the host that matters.
  virtual std::string why_not_captured() const {
    return "since the task does not say that its steps are all alike";
  }

  /// The network takes samples of any extents of at least this along each axis: what a forecast of
  /// memory tries small.
  virtual int64_t smallest_extent() const { return 16; }
  /// Of the largest sample that training can read, as far as that is known without reading it; else
  /// 0x0x0: then cases are read to find out.
  virtual Dims3 largest_extents() const { return {}; }
  /// What a cache of the samples' files takes of the host's memory when it is full.
  struct CacheMemory {
    int64_t of_rank = 0;  ///< each rank has its own
    int64_t of_host = 0;  ///< one for the ranks of a host
    std::string key;      ///< of its settings: "data.cache"
  };
  virtual CacheMemory cache_memory() const { return {}; }
  /// What a user could change for a run to need less memory, most useful first: "model.recompute".
  virtual std::vector<std::string> ways_to_less_memory() const { return {}; }

  /// Lines for the start of the log: the network, the cases.
  virtual std::vector<std::string> describe() const { return {}; }
  /// What a user should know who trains with so many ranks: one sentence each.
  virtual std::vector<std::string> warnings(int n_ranks) const {
    static_cast<void>(n_ranks);
    return {};
  }
};

/// For the sampler: none with train.sampling = shuffle.  Throws UsageError with weighted where the
/// task's samples have no weights.
std::vector<double> sampling_weights(const Task& task, const std::string& sampling);

/// A task whose settings are a struct derived from RunConfig.
template <std::derived_from<RunConfig> C>
class ConfiguredTask : public Task {
 public:
  explicit ConfiguredTask(C config) : config_(std::move(config)) {}
  const C& config() const { return config_; }

  std::string settings_text() const override { return train::settings_text(config_); }
  OldSettings compare_settings(const std::string& text, const std::string& where) const override {
    C old;
    config_load_text(old, text, where);
    OldSettings settings{.run = old, .changes = {}};
    for (std::string& line : config_diff(old, config_)) {
      if (line.starts_with("resume:") || line.starts_with("overwrite:")) continue;
      refuse_change(line);
      settings.changes.push_back(std::move(line));
    }
    return settings;
  }

 protected:
  /// Throws UsageError for a changed setting with which the run cannot go on.
  virtual void refuse_change(const std::string& line) const { static_cast<void>(line); }

 private:
  C config_;
};

}  // namespace bora::train
