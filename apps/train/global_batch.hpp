// SPDX-License-Identifier: Apache-2.0
// How many samples an update takes, whatever the number of ranks.
#pragma once

#include <cstdint>

#include "apps/train/config.hpp"

namespace bora::train {

/// Micro-steps an update: train.accumulate, or what train.global_batch makes of it with so many
/// ranks.  Pure: all ranks agree.  Throws UsageError, with the numbers of ranks that would do, if
/// train.global_batch is no multiple of train.batch x ranks, or if both keys are set.
int64_t accumulate_of(const TrainConfig& config, int n_ranks);

/// Samples an update takes, all ranks together.
int64_t samples_of_an_update(const TrainConfig& config, int n_ranks);

/// Of a resumed run, its settings before and now: throws UsageError if its updates take another
/// number of samples, for then it would be another run under the name of the old one.
void require_same_samples(const TrainConfig& before, int ranks_before, const TrainConfig& now,
                          int ranks_now);

}  // namespace bora::train
