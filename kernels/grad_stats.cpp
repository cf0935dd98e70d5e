// SPDX-License-Identifier: Apache-2.0
#include "kernels/grad_stats.hpp"

#include "kernels/for_each.hpp"
#include "kernels/reduce.hpp"
#include "kernels/step_scalars.hpp"
#include "kernels/volume.hpp"
#if defined(BORA_DEVICE_CODE)
#include "kernels/cuda/reduce_packs.hpp"
#endif

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
  static constexpr bool kHostOnly = true;  // devices have kernels/cuda/reduce_packs.hpp
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

/// out[0 .. 3) = what `stats` says of n elements.
template <class T, Scaling kScaling>
void reduce_all(const char* what, Stream stream, int64_t n, const Stats<T, kScaling>& stats) {
  if (stream.device.type == DeviceType::cpu) return reduce_rows(stream, 1, n, stats);
#if defined(BORA_DEVICE_CODE)
  if constexpr (kDeviceHasF64 || !std::is_same_v<T, double>) {
    cuda::reduce_packs<T, kScaling == Scaling::in_place>(what, stream, n, stats);
  } else {
    throw_host_only(what);
  }
#else
  (void)what;
  ::bora::detail::throw_built_without_cuda();
#endif
}

void check(const char* what, const Tensor& gradient, const Tensor& out) {
  BORA_CHECK(gradient.defined(), what, ": the gradient is undefined");
  check_tensor(out, {3}, DType::f64, gradient.device(), "gradient statistics");
}

}  // namespace

void grad_stats(Stream stream, const Tensor& gradient, Tensor& out) {
  check("grad_stats", gradient, out);
  dispatch_float(gradient.dtype(), "grad_stats", [&]<class T>() {
    reduce_all("grad_stats", stream, gradient.numel(),
               Stats<T, Scaling::none>{gradient.data<T>(), out.data<double>(), 1});
  });
}

void unscale_and_stats(Stream stream, double factor, Tensor& gradient, Tensor& out) {
  check("unscale_and_stats", gradient, out);
  BORA_CHECK(std::isfinite(factor) && factor > 0, "unscale_and_stats: factor ", factor,
             ", wanted a positive number");
  dispatch_float(gradient.dtype(), "unscale_and_stats", [&]<class T>() {
    reduce_all("unscale_and_stats", stream, gradient.numel(),
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
    reduce_all("scaled_grad_stats", stream, gradient.numel(),
               Stats<T, Scaling::read_only>{gradient.data<T>(), out.data<double>(), 1, values});
  });
}

}  // namespace bora::kernels
