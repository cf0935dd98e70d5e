// SPDX-License-Identifier: Apache-2.0
#include "kernels/grad_stats.hpp"

#include "kernels/reduce.hpp"
#include "kernels/volume.hpp"

namespace bora::kernels {
namespace {

/// Scales: elements are multiplied by `factor` in place first; each is visited once.
template <class T, bool Scales>
struct Stats {
  using Element = double;
  static constexpr int kWidth = 3;
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  using State = Lanes<double, 3>;
  std::conditional_t<Scales, T*, const T*> x;
  double* out;
  acc_t<T> factor;

  BORA_HD State identity() const { return {{0.0, 0.0, 0.0}}; }
  BORA_HD void add(State& s, int64_t, int64_t offset, int64_t) const {
    // All in f64: masks of one width keep the loop vector code.
    acc_t<T> element = load(x[offset]);
    if constexpr (Scales) {
      element *= factor;
      x[offset] = static_cast<T>(element);
      element = load(x[offset]);
    }
    const double value = static_cast<double>(element);
    const bool finite = value - value == 0.0;
    const double v = finite ? value : 0.0;
    const double magnitude = v < 0.0 ? -v : v;
    s.v[0] += v * v;
    s.v[1] += finite ? 0.0 : 1.0;
    s.v[2] = magnitude > s.v[2] ? magnitude : s.v[2];
  }
  BORA_HD void merge(State& a, const State& b) const {
    a.v[0] += b.v[0];
    a.v[1] += b.v[1];
    a.v[2] = b.v[2] > a.v[2] ? b.v[2] : a.v[2];
  }
  BORA_HD void store(int64_t, int64_t, const State& s) const {
    for (int k = 0; k < 3; ++k) out[k] = s.v[k];
  }
};

void check(const char* what, const Tensor& gradient, const Tensor& out) {
  BORA_CHECK(gradient.defined(), what, ": the gradient is undefined");
  check_tensor(out, {3}, DType::f64, gradient.device(), "gradient statistics");
}

}  // namespace

void grad_stats(Stream stream, const Tensor& gradient, Tensor& out) {
  check("grad_stats", gradient, out);
  dispatch_float(gradient.dtype(), "grad_stats", [&]<class T>() {
    reduce_rows(stream, 1, gradient.numel(),
                Stats<T, false>{gradient.data<T>(), out.data<double>(), 1});
  });
}

void unscale_and_stats(Stream stream, double factor, Tensor& gradient, Tensor& out) {
  check("unscale_and_stats", gradient, out);
  BORA_CHECK(std::isfinite(factor) && factor > 0, "unscale_and_stats: factor ", factor,
             ", wanted a positive number");
  dispatch_float(gradient.dtype(), "unscale_and_stats", [&]<class T>() {
    reduce_rows(
        stream, 1, gradient.numel(),
        Stats<T, true>{gradient.data<T>(), out.data<double>(), static_cast<acc_t<T>>(factor)});
  });
}

}  // namespace bora::kernels
