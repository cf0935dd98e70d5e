// SPDX-License-Identifier: Apache-2.0
// Validation: the cases of a task that are not trained with, shared among the ranks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/ordered_sums.hpp"
#include "apps/common/stop.hpp"
#include "apps/train/config.hpp"
#include "apps/train/task.hpp"
#include "data/loader.hpp"

namespace bora::train {

/// Each case is computed by one rank, once, and read ahead on the loader's threads.  The sums are
/// added in the cases' order, so they have the same bits for any number of ranks and threads; ranks
/// may have no case at all.
class Validation {
 public:
  struct Hooks {
    std::function<void(int64_t index)> before{};  ///< of each case of this rank
    std::function<bool()> leave{};  ///< true: this rank has a reason of its own for all to leave
    std::string advice{};           ///< last words of an error: what to do now
  };

  /// `task` and `cases` outlive it.  precision: of class `half` ops.
  Validation(Task& task, const data::Dataset& cases, const LoaderConfig& loader, Device device,
             DType precision);

  /// Begins to read the cases of the next run(), which comes soon.
  void read_ahead(const Collective& ranks);

  /// Collective.  Sums over all cases of the loss's parts and the task's scores, in this order; or
  /// nothing, if the ranks were told to stop meanwhile (`stop` is stopping then).  The network is
  /// in evaluation mode afterwards.  `parts` receives the sums of each case.  Throws Error on all
  /// ranks where a case cannot be read or a figure of it is NaN or inf: it names the case, the
  /// figure and the first op of the forward pass that was not finite, and ends with the advice.
  std::optional<MetricSums> run(Collective& ranks, apps::StopWatcher& stop, const Hooks& hooks,
                                std::vector<apps::OrderedSums::Part>* parts = nullptr);

  /// Seconds that this rank has waited for cases so far.
  double wait_s() const { return loader_.wait_s(); }

 private:
  void score_next(apps::OrderedSums& sums, const Hooks& hooks);
  void require_finite(const std::vector<double>& values, const std::vector<std::string>& names,
                      const data::Batch& batch, const std::string& advice);

  Task& task_;
  const data::Dataset& cases_;
  Device device_;
  DType precision_;
  bool is_reading_ = false;
  data::Loader<data::Sample> loader_;  // last: its threads use the members above
};

}  // namespace bora::train
