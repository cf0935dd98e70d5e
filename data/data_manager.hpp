// SPDX-License-Identifier: Apache-2.0
// DataManager: sampler and loader of one data set as one object.
#pragma once

#include <cstdint>
#include <optional>

#include "data/batch.hpp"
#include "data/dataset.hpp"
#include "data/loader.hpp"
#include "data/sampler.hpp"

namespace bora::data {

struct DataManagerOptions {
  int n_ranks = 1;
  int rank = 0;
  int64_t batch = 1;  ///< samples of a batch on this rank
  uint64_t seed = 0;  ///< of the order, the windows and the augmentation
  Reading reading = Reading::random;
  bool shuffle = true;
  Tail tail = Tail::pad;
  LoaderOptions loader{};
};

/// The batches of this rank, epoch by epoch:
///   DataManager data(dataset, {.n_ranks = ranks.size(), .rank = ranks.rank(), .batch = 4});
///   for (int64_t epoch = 0; epoch < n; ++epoch) {
///     data.begin({epoch, 0});
///     while (std::optional<Batch> batch = data.next()) ...
///   }
/// The same batches for any number of loader threads.  All functions are to be called from one
/// thread.
class DataManager {
 public:
  /// `dataset` must outlive the manager.  Throws UsageError for what sampler and loader refuse, and
  /// if an epoch has nothing for this rank (DistributedSampler::require_samples).
  DataManager(const Dataset& dataset, const DataManagerOptions& options);

  /// Begins an epoch, or goes on inside one.  An epoch begun a second time has the same order and
  /// the same augmentation as the first, and a warning says so, once.
  void begin(EpochPosition from);
  /// The next batch of the epoch, shorter at its end, nothing after it.  Without begin() it begins
  /// with epoch 0, and once an epoch has ended with the following one: so a loop that forgets
  /// begin() still gets another order each time.
  std::optional<Batch> next();

  /// Where all ranks are after what next() has given so far, for begin() of a later run: after the
  /// last batch the beginning of the next epoch.
  EpochPosition position() const;
  /// Seconds that next() has waited for data so far.
  double wait_s() const { return loader_.wait_s(); }
  const DistributedSampler& sampler() const { return sampler_; }

 private:
  DistributedSampler sampler_;
  Loader<Sample> loader_;
  EpochPosition from_{};
  int64_t last_whole_ = -1;  // the epoch that was last begun at its beginning
  bool running_ = false;
  bool told_ = false;
};

}  // namespace bora::data
