// SPDX-License-Identifier: Apache-2.0
// BatchFeed: the samples of a run, micro-step by micro-step, where they are computed with.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "apps/common/upload.hpp"
#include "apps/common/window_plan.hpp"
#include "apps/train/config.hpp"
#include "data/batch.hpp"
#include "data/loader.hpp"

namespace bora::train {

/// As the configuration says, with the threads that its default stands for.
data::LoaderOptions loader_options(const LoaderConfig& config);

/// What a rank computes at once.
struct MicroStep {
  data::Slot first;     ///< of its samples: their place in the run
  int64_t samples = 0;  ///< without padding; 0: the batch has none
  /// input, target, region and weight on the device, the rest on the host (`valid` undefined on a
  /// device).
  data::Batch batch;
};

/// Reads ahead on threads, joins samples, and on a device uploads a batch while the device computes
/// with the one before.  Samples are a function of (seed, epoch, index) alone.
class BatchFeed {
 public:
  /// `training` and `plan` outlive the feed.
  BatchFeed(const data::Dataset& training, const apps::WindowPlan& plan, uint64_t seed,
            const LoaderConfig& loader, Device device);

  /// From here on next() gives the micro-steps of the windows from `from`, the beginning of one, to
  /// the end of the epoch.  Does nothing where they are being read already and none was given: so
  /// an epoch can be begun while something else is computed.
  void start(data::EpochPosition from);
  /// The next one.  On a device its tensors are overwritten by the next call.  Throws Error after
  /// the last one, and what reading throws.
  MicroStep next();
  /// On a device: joins and sends the micro-step after the last that next() gave, if there is one.
  /// Call it when the device has work to do.
  void prefetch();

  /// Reads the micro-steps of the window that begins at `from` once more, one after the other, with
  /// tensors of their own, until `use` returns false.
  template <class Use>
  void read_again(data::EpochPosition from, Use&& use) const {
    size_t begin = 0;
    const std::vector<data::Slot> slots = plan_.slots(from);
    for (const int64_t n : plan_.micro_steps(plan_.samples_at(from))) {
      if (!use(read_micro_step(slots, begin, n))) return;
      begin += static_cast<size_t>(n);
    }
  }

  /// Seconds spent waiting for samples so far.
  double wait_s() const { return loader_.wait_s(); }

 private:
  data::Sample read(const data::Slot& slot) const;
  MicroStep read_micro_step(const std::vector<data::Slot>& slots, size_t begin, int64_t n) const;
  MicroStep load_next();

  const data::Dataset& training_;
  const apps::WindowPlan& plan_;
  uint64_t seed_;
  Device device_;
  std::optional<apps::Uploader> uploader_;
  std::optional<data::EpochPosition> started_;  // of the epoch of which none was given yet
  std::deque<int64_t> sizes_;                   // of the micro-steps to come, padding included
  std::optional<MicroStep> ahead_;              // sent already
  data::Loader<data::Sample> loader_;           // last: its threads use the members above
};

}  // namespace bora::train
