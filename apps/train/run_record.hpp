// SPDX-License-Identifier: Apache-2.0
// RunRecord: what a checkpoint says of a run beside its weights and its optimizer.
#pragma once

#include <cstdint>

#include "core/state.hpp"
#include "data/sampler.hpp"

namespace bora::train {

/// How far a run has come: together with the weights and the optimizer, all that a resumed run
/// needs.
struct Position {
  data::EpochPosition data;  ///< epoch under way and samples of it used by all ranks
  double best = 0;           ///< smallest Task::judge() of a validation so far
  int64_t best_epoch = -1;   ///< -1: none yet
  int64_t epochs_without_best = 0;
  bool stopped_early = false;
  bool validation_due = false;  ///< the epoch before is trained but not validated: stopped between
};

/// Written by the trainer, and by whoever makes the checkpoint of a run that has not begun.
struct RunRecord {
  int64_t total_updates = 0;
  int64_t world_size = 1;
  /// The learning rate's own first update and length: another than the run's after an extension.
  int64_t schedule_begin = 0, schedule_total = 0;
  int64_t lr_ranks = 1;  ///< that a linear rule multiplies by: those the run began with
  Position position{};

  void state(StateVisitor& visitor, const data::DistributedSampler& sampler);
};

}  // namespace bora::train
