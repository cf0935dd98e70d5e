// SPDX-License-Identifier: Apache-2.0
#include "apps/gpucheck/compare.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace bora::gpucheck {
namespace {

double unit_roundoff(DType t) {
  switch (t) {
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    case DType::f32:
      return 0x1p-24;
    default:
      return 0x1p-53;
  }
}

/// Half the distance of the smallest numbers of a type: f16 has few bits below 6e-5.
double absolute_floor(DType t) {
  return t == DType::f16 ? 0x1p-24 : t == DType::f64 ? 0 : 0x1p-126;
}

double gamma(double n, double u) { return n * u / (1 - n * u); }

}  // namespace

double relative_bound(double n, DType stored) {
  return gamma(n, unit_roundoff(DType::f32)) + gamma(1, unit_roundoff(stored));
}

void compare(const std::vector<double>& got, const std::vector<double>& wanted, double bound,
             DType stored, Check& check) {
  BORA_CHECK(got.size() == wanted.size(), check.op, ": ", got.size(), " results, wanted ",
             wanted.size());
  double largest = 0, norm = 0, difference = 0, worst = 0;
  size_t worst_at = 0;
  bool odd = false;  // a NaN or inf that should not be, or that should
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == wanted[i] || (std::isnan(got[i]) && std::isnan(wanted[i]))) {
      if (std::isfinite(wanted[i])) {
        largest = std::max(largest, std::abs(wanted[i]));
        norm += wanted[i] * wanted[i];
      }
      continue;
    }
    const double d = std::abs(got[i] - wanted[i]);
    if (!std::isfinite(d)) {
      if (!odd) worst_at = i;
      odd = true;
      continue;
    }
    largest = std::max(largest, std::abs(wanted[i]));
    norm += wanted[i] * wanted[i];
    difference += d * d;
    if (d > worst) {
      worst = d;
      if (!odd) worst_at = i;
    }
  }
  const double floor = 2 * absolute_floor(stored);
  const double tol_max = bound * largest + floor;
  const double tol_l2 =
      norm > 0 ? bound + floor * std::sqrt(static_cast<double>(got.size()) / norm) : bound;
  const double l2 = odd        ? HUGE_VAL
                    : norm > 0 ? std::sqrt(difference / norm)
                               : std::sqrt(difference);
  const double max_abs = odd ? HUGE_VAL : worst;
  const bool pass = max_abs <= tol_max && (norm > 0 ? l2 <= tol_l2 : max_abs <= tol_max);
  if (!pass && check.pass)
    check.note = detail::join("element ", worst_at, " of ", got.size(), ": got ", got[worst_at],
                              ", wanted ", wanted[worst_at]);
  // The output nearest to its tolerance, or furthest beyond it, stands for all.
  const auto share = [](double value, double tolerance) {
    return tolerance > 0 ? value / tolerance : value > 0 ? HUGE_VAL : 0.0;
  };
  if (check.tol_max_abs == 0 || share(max_abs, tol_max) > share(check.max_abs, check.tol_max_abs)) {
    check.max_abs = max_abs;
    check.tol_max_abs = tol_max;
  }
  if (check.tol_rel_l2 == 0 || share(l2, tol_l2) > share(check.rel_l2, check.tol_rel_l2)) {
    check.rel_l2 = l2;
    check.tol_rel_l2 = tol_l2;
  }
  check.pass = check.pass && pass;
}

std::vector<double> values_of(const Tensor& t) {
  const Tensor host = t.detach().to(cpu());
  return (host.dtype() == DType::f64 ? host : host.to(DType::f64)).to_vector<double>();
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const Tensor x = a.detach().to(cpu()), y = b.detach().to(cpu());
  return x.bytes() == 0 || std::memcmp(x.raw(), y.raw(), static_cast<size_t>(x.bytes())) == 0;
}

}  // namespace bora::gpucheck
