// SPDX-License-Identifier: Apache-2.0
#include "apps/common/error_sums.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace bora::apps {
namespace {

double ratio(double a, double b) {
  return b != 0 ? a / b : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

ErrorSums ErrorSums::merged(const ErrorSums& o) const {
  if (count == 0) return o;
  if (o.count == 0) return *this;
  ErrorSums s = *this;
  s.count += o.count;
  s.hits += o.hits;
  s.sum_error += o.sum_error;
  s.sum_abs += o.sum_abs;
  s.sum_squared += o.sum_squared;
  s.sum_relative += o.sum_relative;
  s.sum_target += o.sum_target;
  s.sum_target_squared += o.sum_target_squared;
  s.min_target = std::min(s.min_target, o.min_target);
  s.max_target = std::max(s.max_target, o.max_target);
  s.max_abs = std::max(s.max_abs, o.max_abs);
  return s;
}

double ErrorSums::mae() const { return ratio(sum_abs, static_cast<double>(count)); }
double ErrorSums::rmse() const { return std::sqrt(ratio(sum_squared, static_cast<double>(count))); }
double ErrorSums::bias() const { return ratio(sum_error, static_cast<double>(count)); }
double ErrorSums::relative_l2() const { return std::sqrt(ratio(sum_squared, sum_target_squared)); }
double ErrorSums::mre() const { return ratio(sum_relative, static_cast<double>(count)); }
double ErrorSums::nrmse() const { return ratio(rmse(), max_target - min_target); }
double ErrorSums::hit_rate() const {
  return ratio(static_cast<double>(hits), static_cast<double>(count));
}
double ErrorSums::r2() const {
  if (count == 0) return std::numeric_limits<double>::quiet_NaN();
  return 1.0 - ratio(sum_squared,
                     sum_target_squared - sum_target * sum_target / static_cast<double>(count));
}

ErrorSums error_sums(const Tensor& prediction, const Tensor& target, const Tensor& region,
                     double hit_threshold) {
  BORA_CHECK(prediction.numel() == target.numel() && region.numel() == target.numel(),
             "error_sums: prediction ", prediction.shape(), ", target ", target.shape(),
             ", region ", region.shape());
  const float* p = prediction.data<float>();
  const float* t = target.data<float>();
  const uint8_t* r = region.data<uint8_t>();
  ErrorSums s;
  for (int64_t i = 0; i < target.numel(); ++i) {
    if (!r[i]) continue;
    const double truth = t[i], e = p[i] - truth, size = std::fabs(e);
    if (s.count++ == 0) s.min_target = s.max_target = truth;
    s.hits += size <= hit_threshold;
    s.sum_error += e;
    s.sum_abs += size;
    s.sum_squared += e * e;
    s.sum_relative += size / std::max(std::fabs(truth), ErrorSums::kSmallTarget);
    s.sum_target += truth;
    s.sum_target_squared += truth * truth;
    s.min_target = std::min(s.min_target, truth);
    s.max_target = std::max(s.max_target, truth);
    s.max_abs = std::max(s.max_abs, size);
  }
  return s;
}

}  // namespace bora::apps
