// SPDX-License-Identifier: Apache-2.0
#include "apps/train/ema.hpp"

#include "core/log.hpp"

namespace bora::train {

RunAverage::RunAverage(double decay, nn::ParameterArena& arena, nn::Module& module)
    : arena_(arena), module_(module) {
  BORA_CHECK(decay >= 0, "train.ema is ", decay, ", wanted 0 (off) or a decay below 1");
  if (decay > 0) ema_.emplace(arena, decay);
}

void RunAverage::state(StateVisitor& visitor) {
  if (visitor.loading() ? !in_file_ : !ema_) return;
  if (ema_) return ema_->state(visitor, module_);
  nn::Ema dropped(arena_, 0.5);
  dropped.state(visitor, module_);
}

void RunAverage::settle(int64_t updates, bool resumed, bool say) {
  if (ema_ && !in_file_) ema_->begin(updates);
  if (!say || !resumed || on() == in_file_) return;
  if (on())
    log_info("train.ema: the checkpoint has no average of the weights: it begins with those after ",
             updates, " updates");
  else
    log_info("train.ema is off: the checkpoint's average of the weights is dropped");
}

std::unique_ptr<nn::Ema::Use> RunAverage::use() {
  return ema_ ? std::make_unique<nn::Ema::Use>(*ema_) : nullptr;
}

}  // namespace bora::train
