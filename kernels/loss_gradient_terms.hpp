// SPDX-License-Identifier: Apache-2.0
// Arithmetic of the gradient losses, shared by the CPU's loops and the launch shapes.
#pragma once

#include "core/portable.hpp"
#include "core/shape.hpp"
#include "kernels/loss.hpp"

namespace bora::kernels {

inline constexpr double kInverseFloor = 1e-3;  // spec unet3d.md 2

/// Numbers of a sample: for each axis count, sum e, sum a e, sum a.
inline constexpr int kGradientSums = 12;

/// The grid of a batch; the numbers of a line (n, d, h) lie together.
struct LossGrid {
  int64_t samples, depth, height, line, channels;  // line = W * K numbers

  /// Of (N, D, H, W, K).
  explicit LossGrid(const Shape& s)
      : samples(s[0]), depth(s[1]), height(s[2]), line(s[3] * s[4]), channels(s[4]) {}
  /// How far the next element along an axis is.
  BORA_HD int64_t step(int axis) const {
    return axis == 0 ? height * line : axis == 1 ? line : channels;
  }
};

template <class A>
BORA_HD inline A magnitude(A v) {
  return v < A(0) ? -v : v;
}

/// What a difference of error e = |D p - D t| and slope a = |D t| adds before weighting.
template <bool kInverse, class A>
BORA_HD inline A difference_term(A e, A a) {
  if constexpr (kInverse) return e / (a + A(kInverseFloor));
  return e;
}

/// The weight of a difference in the loss of its sample and axis: constant + slope * a; for the
/// inverse form constant / (a + floor).
struct DifferenceWeight {
  double constant = 0.0, slope = 0.0;
};

/// From the 4 numbers of a sample and axis.
BORA_HD inline DifferenceWeight difference_weight(GradientLossForm form, const double* sums) {
  const double count = sums[0], total = sums[3];
  if (count == 0.0) return {};
  if (form != GradientLossForm::edge || total == 0.0) return {1.0 / count, 0.0};
  return {0.5 / count, 0.5 / total};  // (1 + a / (total / count)) / 2 / count
}

/// d(loss) / d(D p) of a difference with signed error e and target difference dt.
template <bool kInverse, class A>
BORA_HD inline A difference_pull(A e, A dt, A constant, A slope) {
  const A sign = e > A(0) ? A(1) : e < A(0) ? A(-1) : e;  // 0 at 0, NaN for NaN
  const A a = magnitude(dt);
  if constexpr (kInverse) return constant / (a + A(kInverseFloor)) * sign;
  return (constant + slope * a) * sign;
}

}  // namespace bora::kernels
