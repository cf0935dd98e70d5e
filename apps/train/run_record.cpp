// SPDX-License-Identifier: Apache-2.0
#include "apps/train/run_record.hpp"

namespace bora::train {

void RunRecord::state(StateVisitor& visitor, const data::DistributedSampler& sampler) {
  visitor.value("total_updates", total_updates);
  visitor.value("world_size", world_size);
  visitor.value("schedule_begin", schedule_begin);
  visitor.value("schedule_total", schedule_total);
  visitor.value("lr_ranks", lr_ranks);
  visitor.value("best", position.best);
  visitor.value("best_epoch", position.best_epoch);
  visitor.value("epochs_without_best", position.epochs_without_best);
  visitor.value("stopped_early", position.stopped_early);
  visitor.value("validation_due", position.validation_due);
  sampler.state(visitor, position.data);
}

}  // namespace bora::train
