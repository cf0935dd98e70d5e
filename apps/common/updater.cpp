// SPDX-License-Identifier: Apache-2.0
#include "apps/common/updater.hpp"

#include "kernels/grad_stats.hpp"

namespace bora::apps {

Updater::Updater(nn::ParameterArena& arena, nn::Optimizer& optimizer, GradientExchange& exchange,
                 nn::Schedule schedule, double max_norm, nn::GradScaler* scaler)
    : arena_(arena),
      optimizer_(optimizer),
      exchange_(exchange),
      schedule_(schedule),
      max_norm_(max_norm),
      scaler_(scaler),
      readback_(arena.device()) {
  BORA_CHECK(max_norm >= 0, "Updater: clip at ", max_norm, ", wanted 0 (off) or a positive norm");
  if (!on_device()) return;
  const Device device = arena_.device();
  nn::check_schedule(schedule_);
  kernels::StepScalars first;
  first.scale.scale = 1;
  told_updates_ = optimizer_.updates();
  first.updates = static_cast<double>(told_updates_);
  rule_ = kernels::step_rule_on(device, rule());
  scalars_ = kernels::step_scalars_on(device, first);
  stats_ = Tensor::zeros({3}, DType::f64, device);
  if (scaler_) scaler_->move_state_to(scalars_.view(1, {4}));
}

kernels::StepRule Updater::rule() const {
  return {.schedule = schedule_,
          .max_norm = max_norm_,
          .scales = scaler_ != nullptr,
          .loss_scale = scaler_ ? scaler_->rule() : kernels::LossScaleRule{},
          .beta1 = optimizer_.own_momentum(),
          .beta2 = optimizer_.own_beta2()};
}

void Updater::set_schedule(const nn::Schedule& schedule) {
  nn::check_schedule(schedule);
  schedule_ = schedule;
  if (on_device()) kernels::set_step_rule(rule_, rule());
}

Tensor Updater::seed(double weight) {
  if (!on_device()) return Tensor::scalar<float>(static_cast<float>(weight * loss_scale()));
  Tensor seed = Tensor::empty({}, DType::f32, arena_.device());
  kernels::loss_seed(seed.stream(), weight, scalars_, seed);
  return seed;
}

void Updater::begin_window() {
  arena_.clear_gradients();
  if (!on_device() || optimizer_.updates() == told_updates_) return;
  BORA_CHECK(pending() == 0, "Updater: the optimizer's state was loaded while ", pending(),
             " windows have not been reported");
  told_updates_ = optimizer_.updates();
  BORA_CHECK(told_updates_ >= schedule_.begin, "Updater: ", told_updates_,
             " updates done, the schedule begins after ", schedule_.begin);
  Tensor updates = scalars_.view(0, {1});
  updates.copy_from(Tensor::from<double>({1}, std::vector{static_cast<double>(told_updates_)}));
  updates.stream().synchronize();
}

void Updater::enqueue_update(const std::string& suspect) {
  exchange_.finish();
  if (!on_device()) return update_on_host(suspect);
  const Tensor& gradients = arena_.gradients().all();
  const Stream stream = gradients.stream();
  kernels::scaled_grad_stats(stream, scalars_, gradients, stats_);
  kernels::step_scalars(stream, rule_, stats_, scalars_);
  optimizer_.step_from(scalars_);
  if (ema_) ema_->update_from(scalars_);
}

void Updater::update_on_host(const std::string& suspect) {
  const int64_t done = optimizer_.updates();
  UpdateReport report;
  report.loss_scale = loss_scale();
  report.lr = nn::learning_rate(schedule_, done);
  // After the reduction: a NaN of any rank is in every rank's sum, so all act alike.
  const nn::GradientNorm norm = scaler_ ? scaler_->unscale(arena_) : nn::gradient_norm(arena_);
  report.gradient_norm = norm.norm;
  report.skipped = norm.non_finite > 0;
  if (report.skipped && (!scaler_ || scaler_->at_lowest()))
    refuse(done + 1, norm.non_finite, loss_scale(), suspect);
  if (!report.skipped) {
    report.clip = nn::clip_factor(norm.norm, max_norm_);
    optimizer_.step({.lr = report.lr,
                     .momentum = nn::momentum(schedule_, done, -1.0),
                     .gradient_factor = report.clip});
    if (ema_) ema_->update(optimizer_.updates());
  }
  if (scaler_) {
    scaler_->advance();
    report.skipped_so_far = scaler_->skipped();
  }
  report.next_loss_scale = loss_scale();
  report.update = optimizer_.updates();
  latest_ = report;
}

int64_t Updater::post_report() {
  ++windows_;
  if (on_device()) {
    const int64_t ticket = readback_.push(scalars_);
    BORA_CHECK(ticket == windows_, "Updater: ticket ", ticket, " of window ", windows_);
    return windows_;
  }
  BORA_CHECK(latest_, "Updater: post_report() without enqueue_update() before it");
  latest_->window = windows_;
  ready_.push_back(*latest_);
  latest_.reset();
  return windows_;
}

int64_t Updater::end_window(const std::string& suspect) {
  enqueue_update(suspect);
  return post_report();
}

std::vector<UpdateReport> Updater::reports_up_to(int64_t ticket, bool also_arrived) {
  std::vector<UpdateReport> all;
  for (; !ready_.empty() && (also_arrived || ready_.front().window <= ticket); ready_.pop_front())
    all.push_back(ready_.front());
  int64_t next = windows_ - readback_.pending() + 1;
  for (; readback_.pending() > 0 && (also_arrived || next <= ticket); ++next) {
    std::optional<DeviceReadback::Item> item = next <= ticket ? readback_.wait() : readback_.pop();
    if (!item) break;
    all.push_back(report_of(*item));
  }
  return all;
}

UpdateReport Updater::report_of(const DeviceReadback::Item& item) {
  const kernels::StepScalars s = kernels::step_scalars_of(item.values);
  told_updates_ = static_cast<int64_t>(s.updates);
  optimizer_.set_updates(told_updates_);
  if (s.refused != 0)
    refuse(told_updates_ + 1, static_cast<int64_t>(s.non_finite), s.window_scale,
           find_suspect_ ? find_suspect_(item.ticket) : std::string());
  return {.window = item.ticket,
          .update = told_updates_,
          .lr = s.rate,
          .gradient_norm = s.norm,
          .clip = s.clip,
          .skipped = s.skip != 0,
          .loss_scale = s.window_scale,
          .next_loss_scale = s.scale.scale,
          .skipped_so_far = static_cast<int64_t>(s.scale.skipped)};
}

UpdateReport Updater::finish_window(const std::string& suspect) {
  BORA_CHECK(pending() == 0, "Updater: ", pending(), " earlier reports have not been fetched");
  const int64_t ticket = end_window(suspect);
  return reports(ticket).back();
}

void Updater::refuse(int64_t update, int64_t non_finite, double scale,
                     const std::string& suspect) const {
  const std::string first = nn::first_non_finite_gradient(arena_);
  std::string where = first.empty()
                          ? std::string("in gradients that later windows have overwritten")
                          : detail::join("the first in the gradient of '", first, "'");
  if (!suspect.empty()) where += "; in the forward pass the first was " + suspect;
  const std::string at =
      scaler_ ? detail::join(" at the lowest loss scale, ", scale) : std::string();
  BORA_FAIL("update ", update, ": ", non_finite, " gradient values are NaN or inf", at, ", ", where,
            "; the weights are untouched. Resume from the last checkpoint with a smaller optim.lr, "
            "or look at the data");
}

}  // namespace bora::apps
