// SPDX-License-Identifier: Apache-2.0
// ErrorSums: what the scores of a prediction are made of; sums first, formulas last.
#pragma once

#include <cstdint>

#include "core/tensor.hpp"

namespace bora::apps {

/// Over the cells of a region; e = prediction - target.  Sums of two regions or cases are joined by
/// merged(), never their scores.
struct ErrorSums {
  int64_t count = 0;
  int64_t hits = 0;  ///< cells with |e| <= threshold
  double sum_error = 0, sum_abs = 0, sum_squared = 0;
  double sum_relative = 0;  ///< of |e| / max(|target|, kSmallTarget)
  double sum_target = 0, sum_target_squared = 0;
  double min_target = 0, max_target = 0, max_abs = 0;

  /// Relative errors are taken against at least this much (m/s): calm cells would dominate the
  /// mean.
  static constexpr double kSmallTarget = 0.5;

  ErrorSums merged(const ErrorSums& other) const;

  // Scores; NaN where there is nothing to divide by.
  double mae() const;          ///< mean |e|
  double rmse() const;         ///< sqrt(mean e^2)
  double bias() const;         ///< mean e
  double relative_l2() const;  ///< sqrt(sum e^2 / sum target^2)
  double mre() const;          ///< mean relative error
  double nrmse() const;        ///< rmse / (max target - min target)
  double hit_rate() const;
  double r2() const;  ///< 1 - sum e^2 / sum (target - mean target)^2
};

/// prediction, target f32 and region u8 of as many elements, on the CPU.  Cells outside the region
/// are not read.  In f64, in memory order.
ErrorSums error_sums(const Tensor& prediction, const Tensor& target, const Tensor& region,
                     double hit_threshold);

}  // namespace bora::apps
