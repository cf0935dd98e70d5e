// SPDX-License-Identifier: Apache-2.0
// Cutting planes out of volumes.
#include <cmath>
#include <cstdio>
#include <tuple>
#include <utility>

#include "data/figure.hpp"

namespace bora::data {
namespace {

/// Centre of cell i, in the axis' units or in cells.
double centre(const Axis& axis, int64_t i) {
  return axis.centres.empty() ? static_cast<double>(i) + 0.5 : axis.centres[static_cast<size_t>(i)];
}

/// Outer faces: half a cell beyond the first and last centre.
std::pair<double, double> faces(const Axis& axis, int64_t n) {
  if (axis.centres.empty()) return {0.0, static_cast<double>(n)};
  if (n == 1) return {centre(axis, 0) - 0.5, centre(axis, 0) + 0.5};
  return {centre(axis, 0) - (centre(axis, 1) - centre(axis, 0)) / 2,
          centre(axis, n - 1) + (centre(axis, n - 1) - centre(axis, n - 2)) / 2};
}

std::string label(const Axis& axis, const char* fallback) {
  const std::string name = axis.name.empty() ? fallback : axis.name;
  const std::string units = !axis.units.empty() ? axis.units : axis.centres.empty() ? "cells" : "";
  return units.empty() ? name : name + " (" + units + ")";
}

void check(const SliceSource& s) {
  BORA_CHECK(s.truth.defined() && s.prediction.defined() && s.open.defined() &&
                 s.truth.rank() == 3 && s.truth.shape() == s.prediction.shape() &&
                 s.truth.shape() == s.open.shape() && s.truth.numel() > 0,
             "slice: truth ", s.truth.shape(), ", prediction ", s.prediction.shape(), " and mask ",
             s.open.shape(), " must be of one shape (X, Y, Z), and not empty");
  for (int a = 0; a < 3; ++a) {
    const auto n = static_cast<int64_t>(s.axes[static_cast<size_t>(a)].centres.size());
    BORA_CHECK(n == 0 || n == s.truth.size(a), "slice: axis ", a, " has ", n, " coordinates for ",
               s.truth.size(a), " cells");
  }
}

int64_t nearest(const Axis& axis, int64_t n, double wanted) {
  BORA_CHECK(std::isfinite(wanted), "slice: the position is not a number");
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i)
    if (std::abs(centre(axis, i) - wanted) < std::abs(centre(axis, best) - wanted)) best = i;
  return best;
}

/// The plane at cell `at` of axis `normal`, axes `u` and `v` in it.
Slice cut(const SliceSource& source, size_t normal, size_t u, size_t v, int64_t at,
          const char* what) {
  const Shape& shape = source.truth.shape();
  const int64_t strides[3] = {shape[1] * shape[2], shape[2], 1};
  static constexpr const char* kNames[3] = {"x", "y", "z"};
  Slice out;
  out.nu = shape[static_cast<int>(u)];
  out.nv = shape[static_cast<int>(v)];
  std::tie(out.u_begin, out.u_end) = faces(source.axes[u], out.nu);
  std::tie(out.v_begin, out.v_end) = faces(source.axes[v], out.nv);
  out.u_label = label(source.axes[u], kNames[u]);
  out.v_label = label(source.axes[v], kNames[v]);
  const Axis& axis = source.axes[normal];
  char position[40];
  std::snprintf(position, sizeof position, "%.6g", centre(axis, at));
  out.label = bora::detail::join(what, " at ", axis.name.empty() ? kNames[normal] : axis.name,
                                 " = ", position, axis.units.empty() ? "" : " ", axis.units);
  for (int64_t i = 0; i < out.nu; ++i)
    for (int64_t j = 0; j < out.nv; ++j) {
      const int64_t cell = at * strides[normal] + i * strides[u] + j * strides[v];
      out.truth.push_back(source.truth.data<float>()[cell]);
      out.prediction.push_back(source.prediction.data<float>()[cell]);
      out.open.push_back(source.open.data<uint8_t>()[cell]);
    }
  return out;
}

}  // namespace

Slice horizontal_slice(const SliceSource& source, double z) {
  check(source);
  return cut(source, 2, 0, 1, nearest(source.axes[2], source.truth.size(2), z), "Horizontal slice");
}

Slice vertical_slice(const SliceSource& source, double y) {
  check(source);
  return cut(source, 1, 0, 2, nearest(source.axes[1], source.truth.size(1), y), "Vertical slice");
}

}  // namespace bora::data
