// SPDX-License-Identifier: Apache-2.0
#include "kernels/grad_stats.hpp"

#include "kernels/for_each.hpp"
#include "kernels/reduce.hpp"
#include "kernels/step_scalars.hpp"
#include "kernels/volume.hpp"

namespace bora::kernels {
namespace {

enum class Scaling {
  none,
  in_place,   ///< elements are multiplied by `factor` in place first; each is visited once
  read_only,  ///< by a factor that lies on the device; products are measured, not stored
};

template <class T, Scaling kScaling>
struct Stats {
  using Element = double;
  static constexpr int kWidth = 3;
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  using State = Lanes<double, 3>;
  std::conditional_t<kScaling == Scaling::in_place, T*, const T*> x;
  double* out;
  acc_t<T> factor;
  const StepScalars* scalars = nullptr;

  BORA_HD State identity() const { return {{0.0, 0.0, 0.0}}; }
  BORA_HD void add(State& s, int64_t, int64_t offset, int64_t) const {
    // All in f64: masks of one width keep the loop vector code.
    acc_t<T> element = load(x[offset]);
    if constexpr (kScaling == Scaling::in_place) {
      element *= factor;
      x[offset] = static_cast<T>(element);
      element = load(x[offset]);
    } else if constexpr (kScaling == Scaling::read_only) {
      element = load(static_cast<T>(element * static_cast<acc_t<T>>(scalars->unscale)));
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

struct Invert {
  StepScalars* scalars;
  BORA_HD void operator()(int64_t) const { scalars->unscale = 1.0 / scalars->scale.scale; }
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
                Stats<T, Scaling::none>{gradient.data<T>(), out.data<double>(), 1});
  });
}

void unscale_and_stats(Stream stream, double factor, Tensor& gradient, Tensor& out) {
  check("unscale_and_stats", gradient, out);
  BORA_CHECK(std::isfinite(factor) && factor > 0, "unscale_and_stats: factor ", factor,
             ", wanted a positive number");
  dispatch_float(gradient.dtype(), "unscale_and_stats", [&]<class T>() {
    reduce_rows(stream, 1, gradient.numel(),
                Stats<T, Scaling::in_place>{gradient.data<T>(), out.data<double>(),
                                            static_cast<acc_t<T>>(factor)});
  });
}

void scaled_grad_stats(Stream stream, Tensor& scalars, const Tensor& gradient, Tensor& out) {
  check("scaled_grad_stats", gradient, out);
  check_tensor(scalars, {kStepScalars}, DType::f64, gradient.device(),
               "scaled_grad_stats: step scalars");
  auto* const values = reinterpret_cast<StepScalars*>(scalars.data<double>());
  for_each(stream, 1, Invert{values});
  dispatch_float(gradient.dtype(), "scaled_grad_stats", [&]<class T>() {
    reduce_rows(stream, 1, gradient.numel(),
                Stats<T, Scaling::read_only>{gradient.data<T>(), out.data<double>(), 1, values});
  });
}

}  // namespace bora::kernels
