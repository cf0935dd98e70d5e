// SPDX-License-Identifier: Apache-2.0
// WindowPlan: which samples a rank takes for an update, and in which portions.
#pragma once

#include <cstdint>
#include <vector>

#include "data/sampler.hpp"

namespace bora::apps {

struct WindowOptions {
  int64_t batch = 1;       ///< samples a rank and micro-step
  int64_t accumulate = 1;  ///< micro-steps an update
  /// 0: a rank's micro-steps are its own affair.  Else the global batch is cut into virtual shards
  /// of so many samples, which are the same for any number of ranks, batch and accumulate with the
  /// same product; a micro-step computes one shard (comm/shard_sum.hpp).
  int64_t shard_samples = 0;
};

/// A window is what one update takes: batch x accumulate x ranks samples, in the epoch's order; the
/// last of an epoch may be smaller.  Ranks always take the same number of micro-steps; where the
/// samples do not divide evenly some slots are padding, which must not count.  A pure function of
/// its arguments: nothing need be told at the start of an epoch.
class WindowPlan {
 public:
  /// sampler: n_ranks and rank are those of the run; tail rule Tail::pad.  Throws UsageError if the
  /// samples of a rank are no power of two times shard_samples.
  WindowPlan(const data::SamplerOptions& sampler, const WindowOptions& options);

  /// Samples of a whole window, all ranks together.
  int64_t samples() const { return options_.batch * options_.accumulate * sampler_.n_ranks; }
  /// The order of the samples.
  data::DistributedSampler sampler() const { return data::DistributedSampler(sampler_); }
  /// Of the window that begins at `from`.
  int64_t samples_at(data::EpochPosition from) const;
  int64_t updates_an_epoch() const;
  bool sharded() const { return options_.shard_samples > 0; }
  /// Virtual shards of a window, all ranks together; 0 without shards.
  int64_t n_shards() const;

  /// This rank's slots from `from`, the beginning of a window, to the end of the epoch, in the
  /// order of use, padding included.
  std::vector<data::Slot> slots(data::EpochPosition from) const;
  /// How many of them each micro-step of a window of so many samples takes.  Equal on all ranks.
  std::vector<int64_t> micro_steps(int64_t window_samples) const;

 private:
  data::DistributedSampler stream(int64_t shard) const;

  data::SamplerOptions sampler_;
  WindowOptions options_;
  int64_t shards_here_ = 0;
};

}  // namespace bora::apps
