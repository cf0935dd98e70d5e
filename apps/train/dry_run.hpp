// SPDX-License-Identifier: Apache-2.0
// dry_run: whether a training run can work, and what it will do, in seconds and without a trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/train/host_memory.hpp"
#include "apps/train/memory_forecast.hpp"
#include "apps/train/trainer.hpp"

namespace bora::train {

/// What a rank will need, in bytes.
struct RankMemory {
  StateBytes state;
  int64_t step = 0;          ///< activations and scratch of forward and backward
  int64_t step_at_most = 0;  ///< the same where small passes do not tell it well
  int64_t batch = 0;     ///< the samples that are computed with, all copies of them on the device
  int64_t queue = 0;     ///< samples read ahead, on the host
  int64_t cache = 0;     ///< files' values that this rank keeps, on the host
  int64_t snapshot = 0;  ///< rank 0: the copy of the state that a save writes from, on the host
  int64_t program = 0;   ///< on the host: what the process has without any tensor
  bool on_device = false;
  /// Of tensors, in the memory that the run computes in: what the allocator will count at its peak
  /// (a save on the CPU included), and what gradients take in memory that ranks share.
  int64_t tensors() const;
  /// Of the host's memory, and of the device's (0 on the CPU).
  int64_t host() const;
  int64_t device() const;
};

enum class Verdict { fits, tight, does_not_fit };
std::string name_of(Verdict verdict);
/// fits up to 85 % of what is free: allocators round and libraries take some memory of their own;
/// tight up to all of it.  free -1, unknown: fits.
Verdict verdict_of(int64_t need, int64_t free);

/// The forecast of a run.
struct DryRun {
  std::vector<std::string> lines;  ///< for people: the plan; on all ranks the same
  Verdict verdict = Verdict::fits;
  RankMemory rank;                 ///< of this rank
  int64_t shared_cache = 0;        ///< files' values that the ranks of this host keep together
  std::vector<StepCost> measured;  ///< empty where the state alone does not fit
  double epoch_s = 0;              ///< an estimate; 0 where nothing was measured
};

struct DryRunOptions {
  ProbeLimits probe{};
  MemorySources memory{};
  int64_t free_bytes = -1;  ///< in place of what is free; -1: look
};

/// Makes the task as a run would (its settings and data are checked), looks at output.dir, runs
/// forward and backward at small extents and extrapolates in cells.  Nothing is written, and no
/// memory is taken for what clearly does not fit.  Collective.  Throws UsageError or Error on all
/// ranks for what a run could not begin with.
DryRun dry_run(const Trainer::MakeTask& make_task, const RunConfig& config, Collective& ranks,
               const ComputePlace& place, const DryRunOptions& options = {});

/// Looks at output.dir without touching it.  Throws UsageError where claim_folder() would refuse
/// it, or where it cannot be written to.  Returns a line: what is there, what is free on the disk,
/// and what the checkpoints will take.  One rank.
std::string check_output(const RunConfig& config, int64_t checkpoint_bytes);

/// One line where the state of the job's ranks (weights, gradients, moments) alone is more than the
/// host or the device has free; else empty.  For the start of a run: no pass is made.  Collective.
std::string state_warning(nn::Module& model, const RunConfig& config, const apps::WindowPlan& plan,
                          Collective& ranks, Device device);

}  // namespace bora::train
