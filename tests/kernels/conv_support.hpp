// SPDX-License-Identifier: Apache-2.0
// A convolution call for tests: shapes, data, the f64 truth, and the bound on what f32 may differ.
#pragma once

#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/conv3d.hpp"
#include "kernels/conv3d_reference.hpp"
#include "tests/support/random.hpp"
#include "tests/support/tolerance.hpp"

namespace bora::test {

/// x (n, in, c_in) -> y (n, ..., c_out).
struct ConvCase {
  int64_t n;
  Dims3 in, kernel;
  int64_t c_in, c_out;
  kernels::Conv3dAttributes a;
  bool bias = false;

  Shape x() const { return {n, in.d, in.h, in.w, c_in}; }
  Shape w() const { return {c_out, kernel.d, kernel.h, kernel.w, c_in / a.groups}; }
  Shape y() const { return kernels::conv3d_output_shape("conv3d", a, x(), w()); }
  friend std::ostream& operator<<(std::ostream& out, const ConvCase& c) {
    return out << "x " << c.x() << " w " << c.w() << " stride " << c.a.stride << " padding "
               << c.a.padding << " dilation " << c.a.dilation << " groups " << c.a.groups
               << (c.bias ? " bias" : "");
  }
};

inline Tensor absolute(const Tensor& t) {
  std::vector<double> v = values_of(t);
  for (double& x : v) x = std::abs(x);
  return make_tensor(t.shape(), v, DType::f64, cpu());
}

/// Empty, or what is wrong.  Each element may differ by 4 sqrt(terms + 2) u times the sum of the
/// magnitudes of its terms, u the unit roundoff of the arithmetic type, plus one rounding to the
/// storage type.  Rounding errors of a sum of n terms behave like a random walk of n steps of at
/// most u (Higham and Mary 2019, theorem 2.4: probability of more than 4 sqrt(n) u below 1e-3 for
/// the worst constants, in practice never); a missing or doubled term is 1/n, far above it.
inline std::string compare_elements(const Tensor& got, const Tensor& want, const Tensor& magnitude,
                                    double terms) {
  if (got.shape() != want.shape()) return "shapes differ";
  const std::vector<double> g = values_of(got), t = values_of(want), m = values_of(magnitude);
  const double bound = 4.0 * std::sqrt(terms + 2.0) * unit_roundoff(arithmetic_type(got.dtype()));
  const double store = 1.01 * unit_roundoff(got.dtype());
  for (size_t i = 0; i < g.size(); ++i) {
    const double allowed = bound * m[i] + store * std::abs(t[i]) + 2 * absolute_floor(got.dtype());
    if (!(std::abs(g[i] - t[i]) <= allowed))
      return "element " + std::to_string(i) + ": got " + std::to_string(g[i]) + ", truth " +
             std::to_string(t[i]) + ", allowed difference " + std::to_string(allowed);
  }
  return {};
}

/// Data of a case in `type` on the device under test, and the same numbers in f64 on the CPU.
struct ConvData {
  Tensor x, w, b, dy;
  Tensor x64, w64, b64, dy64;

  ConvData(const ConvCase& c, DType type, uint64_t seed)
      : x(fill(c.x(), type, seed)),
        w(fill(c.w(), type, seed + 1)),
        b(c.bias ? fill({c.c_out}, type, seed + 2) : Tensor()),
        dy(fill(c.y(), type, seed + 3)),
        x64(wide(x)),
        w64(wide(w)),
        b64(c.bias ? wide(b) : Tensor()),
        dy64(wide(dy)) {}

 private:
  static Tensor fill(const Shape& s, DType type, uint64_t seed) {
    return make_tensor(s, normal_values(s.numel(), seed), type);
  }
  static Tensor wide(const Tensor& t) {
    return make_tensor(t.shape(), values_of(t), DType::f64, cpu());
  }
};

/// All three directions of `c` in `type` against the f64 reference; empty or what is wrong.
inline std::string check_conv(const ConvCase& c, DType type, uint64_t seed) {
  namespace k = kernels;
  const ConvData d(c, type, seed);
  const Stream s = d.x.stream();
  // NaN: whatever is not written shows.  The truth is computed on the CPU.
  const auto nan = [](const Shape& shape, DType t, Device where = cpu()) {
    return Tensor::full(shape, std::nan(""), t, where);
  };
  std::string faults;
  const auto note = [&](const char* what, const std::string& fault) {
    if (!fault.empty()) faults += std::string(what) + ": " + fault + "\n";
  };
  const double taps = static_cast<double>(c.kernel.count());
  {
    Tensor y = nan(c.y(), type, device()), want = nan(c.y(), DType::f64),
           size = nan(c.y(), DType::f64);
    k::conv3d_forward(s, c.a, d.x, d.w, d.b, y);
    k::reference::conv3d_forward(c.a, d.x64, d.w64, d.b64, want);
    k::reference::conv3d_forward(c.a, absolute(d.x64), absolute(d.w64),
                                 c.bias ? absolute(d.b64) : Tensor(), size);
    note("forward",
         compare_elements(y, want, size, taps * static_cast<double>(c.c_in / c.a.groups)));
  }
  {
    Tensor dx = nan(c.x(), type, device()), want = nan(c.x(), DType::f64),
           size = nan(c.x(), DType::f64);
    k::conv3d_backward_data(s, c.a, d.dy, d.w, Tensor(), dx);
    k::reference::conv3d_backward_data(c.a, d.dy64, d.w64, Tensor(), want);
    k::reference::conv3d_backward_data(c.a, absolute(d.dy64), absolute(d.w64), Tensor(), size);
    note("data gradient",
         compare_elements(dx, want, size, taps * static_cast<double>(c.c_out / c.a.groups)));
  }
  for (const auto mode : {k::GradientMode::overwrite, k::GradientMode::add}) {
    const DType wide = type == DType::f64 ? DType::f64 : DType::f32;
    Tensor dw = mode == k::GradientMode::add ? full(c.w(), 0.5, wide) : nan(c.w(), wide, device());
    Tensor want = Tensor::full(c.w(), 0.5, DType::f64), size = want.clone();
    k::conv3d_backward_weights(s, c.a, d.x, d.dy, mode, dw);
    k::reference::conv3d_backward_weights(c.a, d.x64, d.dy64, mode, want);
    k::reference::conv3d_backward_weights(c.a, absolute(d.x64), absolute(d.dy64), mode, size);
    note(mode == k::GradientMode::add ? "weight gradient, added" : "weight gradient",
         compare_elements(dw, want, size, static_cast<double>(c.y().numel() / c.c_out)));
  }
  return faults;
}

}  // namespace bora::test
