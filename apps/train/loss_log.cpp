// SPDX-License-Identifier: Apache-2.0
#include "apps/train/loss_log.hpp"

#include <cmath>

namespace bora::train {

LossLog::LossLog(std::vector<std::string> names, Device device, int64_t max_steps)
    : n_parts_(names.size()), sums_(std::move(names)) {
  BORA_CHECK(max_steps > 0, "LossLog: windows of ", max_steps, " micro-steps, wanted at least 1");
  if (device == cpu()) return;
  rows_ = Tensor::zeros({max_steps, static_cast<int64_t>(n_parts_)}, DType::f32, device);
  readback_.emplace(device);
}

bool LossLog::add(const Step& step, const std::vector<double>& parts) {
  bool finite = true;
  std::vector<double> values, counts;
  for (const double value : parts) {
    const bool counted = std::isfinite(value);
    finite = finite && counted;
    values.push_back(counted ? value * step.weight : 0.0);
    counts.push_back(counted ? step.weight : 0.0);
  }
  sums_.add(step.place, values, counts);
  return finite;
}

void LossLog::keep(int64_t step, const Loss& loss) {
  BORA_CHECK(loss.parts.size() == n_parts_, "LossLog: a loss of ", loss.parts.size(),
             " parts, wanted ", n_parts_);
  if (!readback_) return;
  BORA_CHECK(step >= 0 && step < rows_.size(0), "LossLog: micro-step ", step, " of at most ",
             rows_.size(0));
  const auto n = static_cast<int64_t>(n_parts_);
  for (int64_t i = 0; i < n; ++i)
    rows_.view(step * n + i, Shape{}).copy_from(loss.parts[static_cast<size_t>(i)].second);
}

bool LossLog::note(int64_t place, double weight, const Loss& loss) {
  if (readback_) {
    steps_.push_back({place, weight});
    return true;
  }
  if (weight <= 0) return true;
  std::vector<double> values;
  for (size_t i = 0; i < n_parts_; ++i) values.push_back(loss.value(i));
  return add({place, weight}, values);
}

void LossLog::end_window(int64_t window) {
  if (!readback_) return;
  readback_->push(rows_.rows(0, static_cast<int64_t>(steps_.size())));
  windows_.push_back({window, std::move(steps_)});
  steps_.clear();
}

MetricSums LossLog::reduce(Collective& ranks, int64_t window, const std::string& label) {
  for (; !windows_.empty() && windows_.front().number <= window; windows_.pop_front()) {
    const Tensor rows = readback_->wait().values;
    const float* row = rows.data<float>();
    for (const Step& step : windows_.front().steps) {
      if (step.weight > 0) add(step, std::vector<double>(row, row + n_parts_));
      row += n_parts_;
    }
  }
  MetricSums sums = sums_.reduce(ranks, label);
  sums_.clear();
  return sums;
}

}  // namespace bora::train
