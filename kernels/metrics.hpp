// SPDX-License-Identifier: Apache-2.0
// Errors of a prediction as sums, counts and ranges, which can be joined over cells, samples and
// ranks; the formulas come last.
#pragma once

#include <cmath>
#include <string_view>

#include "core/collective.hpp"
#include "core/tensor.hpp"

namespace bora::kernels {

/// What all error metrics are made of; e = prediction - target over the counting elements. Default:
/// no element.
struct ErrorSums {
  double count = 0, abs = 0, square = 0;  ///< number, sum |e|, sum e^2
  double relative = 0;                    ///< sum |e| / max(|t|, floor)
  double hits = 0;                        ///< number with |e| <= threshold
  double target = 0, target_square = 0;   ///< sum t, sum t^2
  double target_min = HUGE_VAL, target_max = -HUGE_VAL, max_abs = 0;

  static constexpr int kNumbers = 10;

  /// One row of error_sums' result, on the host.
  static ErrorSums from_row(const double* row);
  void add(const ErrorSums& other);
  /// Joins all ranks' sums, in rank order; every rank must call it and gets the same bits.
  void all_reduce(Collective& collective, std::string_view label = "error_sums");

  // All are NaN where nothing was counted.
  double mae() const;          ///< mean |e|
  double rmse() const;         ///< sqrt(mean e^2)
  double mre() const;          ///< mean of |e| / max(|t|, floor)
  double nrmse() const;        ///< rmse / (max t - min t); NaN for a constant target
  double hit_rate() const;     ///< share with |e| <= threshold
  double r2() const;           ///< 1 - sum e^2 / sum (t - mean t)^2; NaN for a constant target
  double relative_l2() const;  ///< sqrt(sum e^2 / sum t^2); NaN for a target of 0
};

struct ErrorSumsAttributes {
  double threshold = 0.0;        ///< of hits, in units of the tensors
  double relative_floor = 1e-3;  ///< smallest |t| to divide by, > 0
};

/// prediction, target (N, ..., K) of one floating type; region (N, ...) u8 or undefined; rows (N,
/// 10) f64: ErrorSums of each sample in the order of its fields.  One pass, f64 throughout, fixed
/// order.  Cells outside the region are not looked at; NaN inside it makes the sums NaN.
void error_sums(Stream stream, const ErrorSumsAttributes& attributes, const Tensor& prediction,
                const Tensor& target, const Tensor& region, Tensor& rows);

}  // namespace bora::kernels
