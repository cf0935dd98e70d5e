// SPDX-License-Identifier: Apache-2.0
#include "apps/common/updater.hpp"

namespace bora::apps {

Updater::Updater(nn::ParameterArena& arena, nn::Optimizer& optimizer, GradientReducer& reducer,
                 nn::Schedule schedule, double max_norm)
    : arena_(arena),
      optimizer_(optimizer),
      reducer_(reducer),
      schedule_(schedule),
      max_norm_(max_norm) {
  BORA_CHECK(max_norm >= 0, "Updater: clip at ", max_norm, ", wanted 0 (off) or a positive norm");
}

void Updater::begin_window() { arena_.clear_gradients(); }

UpdateReport Updater::finish_window() {
  reducer_.finish();
  const nn::GradientNorm norm = nn::gradient_norm(arena_);
  const int64_t done = optimizer_.updates();
  // Checked after the reduction: a NaN of any rank is in every rank's sum, so all stop at the same
  // update.
  BORA_CHECK(norm.non_finite == 0, "update ", done + 1, ": ", norm.non_finite,
             " gradient values are NaN or inf, the first in parameter '",
             nn::first_non_finite_gradient(arena_),
             "'; the weights are untouched. Resume from the last checkpoint with a smaller "
             "optim.lr, or look at the data");
  UpdateReport report;
  report.update = done + 1;
  report.lr = nn::learning_rate(schedule_, done);
  report.gradient_norm = norm.norm;
  report.clip = nn::clip_factor(norm.norm, max_norm_);
  optimizer_.step({.lr = report.lr,
                   .momentum = nn::momentum(schedule_, done, -1.0),
                   .gradient_factor = report.clip});
  return report;
}

}  // namespace bora::apps
