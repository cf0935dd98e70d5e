// SPDX-License-Identifier: Apache-2.0
// The formulas of kernels/loss_data.cpp and loss_classes.cpp, element by element, for all kernels
// that compute them (kernels/cuda/head_loss.cu beside these two).
#pragma once

#include <cmath>
#include <cstdint>

#include "core/portable.hpp"
#include "kernels/loss.hpp"

namespace bora::kernels {

/// f(e) and its derivative.  The kind is the same for all elements of a call: one loop for all
/// kinds, which the compiler splits.
struct LossOfError {
  DataLossKind kind;
  double eps;

  template <class A>
  BORA_HD A value(A e) const {
    if (kind == DataLossKind::mse) return e * e;
    if (kind == DataLossKind::mae) return e < A(0) ? -e : e;
    return ::sqrt(e * e + A(eps) * A(eps));
  }
  template <class A>
  BORA_HD A slope(A e) const {
    if (kind == DataLossKind::mse) return A(2) * e;
    if (kind == DataLossKind::mae)
      return e > A(0) ? A(1) : e < A(0) ? A(-1) : e;  // 0 at 0, NaN for NaN
    return e / ::sqrt(e * e + A(eps) * A(eps));
  }
};

/// dloss / (count * samples) of a sample with these (sum, count): what a slope is multiplied by.
template <class A>
BORA_HD inline A data_loss_factor(const double* sample_sums, int64_t samples, A dloss) {
  const double count = sample_sums[1];
  const double mean = count > 0.0 ? 1.0 / (count * static_cast<double>(samples)) : 0.0;
  return static_cast<A>(static_cast<double>(dloss) * mean);
}

/// Numbers of a (sample, class).
enum ClassSum { kIntersection, kProbability, kLabels, kSurprise, kCells, kClassSums };

/// What class losses weigh, as kernels take it.
struct ClassWeights {
  double ce, dice, smooth;
  int64_t first_class, classes;

  /// d(Dice part) / d(p of class k), of a cell that has the label k or not, from the sums of
  /// (sample, k).
  BORA_HD double dice_slope(const double* class_sums, int64_t k, bool labelled) const {
    if (k < first_class || dice == 0.0) return 0.0;
    const double size = class_sums[kProbability] + class_sums[kLabels] + smooth;
    const double slope =
        (2.0 * class_sums[kIntersection] + smooth) / (size * size) - (labelled ? 2.0 / size : 0.0);
    return dice * slope / static_cast<double>(classes - first_class);
  }
};

/// log p of a logit; largest and log_total as in class_loss_sums.
template <class A>
BORA_HD inline A class_log_probability(A logit, A largest, A log_total) {
  return (logit - largest) - log_total;
}

/// dlogit = p (slope - mean) + ce (p - t), mean = the sum of slope * p over classes.
template <class A>
BORA_HD inline A class_logit_gradient(A p, A slope, A mean, A ce, bool labelled) {
  return p * (slope - mean) + ce * (p - (labelled ? A(1) : A(0)));
}

}  // namespace bora::kernels
