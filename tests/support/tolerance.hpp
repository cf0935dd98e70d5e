// SPDX-License-Identifier: Apache-2.0
// Where tolerances come from.  A result that passes n roundings of unit roundoff u has a relative
// error of at most gamma_n = n u / (1 - n u) of the sum of the magnitudes that went in.
// Source: Higham, "Accuracy and stability of numerical algorithms", 2002, lemma 3.1.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "core/dtype.hpp"

namespace bora::test {

/// Half the distance from 1 to the next number.
inline double unit_roundoff(DType t) {
  switch (t) {
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    case DType::f32:
      return 0x1p-24;
    case DType::f64:
      return 0x1p-53;
    default:
      return 0.0;
  }
}

/// The type arithmetic on `t` is done in.
inline DType arithmetic_type(DType t) {
  return t == DType::f16 || t == DType::bf16 ? DType::f32 : t;
}

/// gamma_n of type t.
inline double gamma(double n, DType t) {
  const double nu = n * unit_roundoff(t);
  return nu / (1.0 - nu);
}

/// Relative bound for a result stored as `t`: n roundings in the arithmetic type, and `stores`
/// roundings to t (one for the result, one for each saved or intermediate tensor on the way).
inline double relative_bound(DType t, double n, double stores = 1.0) {
  return gamma(n, arithmetic_type(t)) + gamma(stores, t);
}

/// Distance below which two values of type t may differ though relatively far: the smallest
/// subnormal (f16 results around 1e-7 are mostly rounding).
inline double absolute_floor(DType t) {
  switch (t) {
    case DType::f16:
      return 0x1p-24;
    case DType::bf16:
    case DType::f32:
      return 0x1p-126;
    default:
      return 0.0;
  }
}

inline double max_abs(const std::vector<double>& v) {
  double m = 0.0;
  for (double x : v) m = std::max(m, std::abs(x));
  return m;
}

/// Empty if got[i] is within `tolerance` of wanted[i] for all i (NaN equals NaN, inf equals inf of
/// the same sign), else a sentence about the worst element.
inline std::string differences(const std::vector<double>& got, const std::vector<double>& wanted,
                               double tolerance) {
  if (got.size() != wanted.size())
    return std::to_string(got.size()) + " values, wanted " + std::to_string(wanted.size());
  size_t worst = 0, n_bad = 0;
  double worst_excess = -1.0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(wanted[i])) continue;
    if (got[i] == wanted[i]) continue;
    const double d = std::abs(got[i] - wanted[i]);
    if (d <= tolerance) continue;
    ++n_bad;
    const double excess = std::isnan(d) ? HUGE_VAL : d;
    if (excess > worst_excess) {
      worst_excess = excess;
      worst = i;
    }
  }
  if (n_bad == 0) return {};
  char text[256];
  std::snprintf(text, sizeof text,
                "%zu of %zu values differ by more than %.3g; worst at %zu: got %.17g, wanted %.17g",
                n_bad, got.size(), tolerance, worst, got[worst], wanted[worst]);
  return text;
}

}  // namespace bora::test
