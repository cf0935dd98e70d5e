// SPDX-License-Identifier: Apache-2.0
#include "apps/common/updater.hpp"

namespace bora::apps {

Updater::Updater(nn::ParameterArena& arena, nn::Optimizer& optimizer, GradientExchange& exchange,
                 nn::Schedule schedule, double max_norm, nn::GradScaler* scaler)
    : arena_(arena),
      optimizer_(optimizer),
      exchange_(exchange),
      schedule_(schedule),
      max_norm_(max_norm),
      scaler_(scaler) {
  BORA_CHECK(max_norm >= 0, "Updater: clip at ", max_norm, ", wanted 0 (off) or a positive norm");
}

void Updater::begin_window() { arena_.clear_gradients(); }

UpdateReport Updater::finish_window(const std::string& suspect) {
  exchange_.finish();
  const int64_t done = optimizer_.updates();
  UpdateReport report;
  report.loss_scale = loss_scale();
  report.lr = nn::learning_rate(schedule_, done);
  // After the reduction: a NaN of any rank is in every rank's sum, so all act alike.
  const nn::GradientNorm norm = scaler_ ? scaler_->unscale(arena_) : nn::gradient_norm(arena_);
  report.gradient_norm = norm.norm;
  report.skipped = norm.non_finite > 0;
  if (report.skipped && (!scaler_ || scaler_->at_lowest())) refuse(norm, suspect);
  if (!report.skipped) {
    report.clip = nn::clip_factor(norm.norm, max_norm_);
    optimizer_.step({.lr = report.lr,
                     .momentum = nn::momentum(schedule_, done, -1.0),
                     .gradient_factor = report.clip});
  }
  if (scaler_) scaler_->advance();
  report.update = optimizer_.updates();
  return report;
}

void Updater::refuse(const nn::GradientNorm& norm, const std::string& suspect) const {
  std::string where =
      detail::join("the first in the gradient of '", nn::first_non_finite_gradient(arena_), "'");
  if (!suspect.empty()) where += "; in the forward pass the first was " + suspect;
  const std::string scale =
      scaler_ ? detail::join(" at the lowest loss scale, ", scaler_->scale()) : std::string();
  BORA_FAIL("update ", optimizer_.updates() + 1, ": ", norm.non_finite,
            " gradient values are NaN or inf", scale, ", ", where,
            "; the weights are untouched. Resume from the last checkpoint with a smaller optim.lr, "
            "or look at the data");
}

}  // namespace bora::apps
