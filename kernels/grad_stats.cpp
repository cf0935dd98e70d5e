// SPDX-License-Identifier: Apache-2.0
#include "kernels/grad_stats.hpp"

#include "kernels/reduce.hpp"
#include "kernels/volume.hpp"

namespace bora::kernels {
namespace {

template <class T>
struct Stats {
  using Element = double;
  static constexpr int kWidth = 3;
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  using State = Lanes<double, 3>;
  const T* x;
  double* out;

  BORA_HD State identity() const { return {{0.0, 0.0, 0.0}}; }
  BORA_HD void add(State& s, int64_t, int64_t offset, int64_t) const {
    // All in f64: masks of one width keep the loop vector code.
    const double value = static_cast<double>(load(x[offset]));
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

}  // namespace

void grad_stats(Stream stream, const Tensor& gradient, Tensor& out) {
  BORA_CHECK(gradient.defined(), "grad_stats: the gradient is undefined");
  check_tensor(out, {3}, DType::f64, gradient.device(), "grad_stats: result");
  dispatch_float(gradient.dtype(), "grad_stats", [&]<class T>() {
    reduce_rows(stream, 1, gradient.numel(), Stats<T>{gradient.data<T>(), out.data<double>()});
  });
}

}  // namespace bora::kernels
