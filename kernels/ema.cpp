// SPDX-License-Identifier: Apache-2.0
#include "kernels/ema.hpp"

#include "kernels/for_each.hpp"
#include "kernels/map.hpp"
#include "kernels/step_scalars.hpp"
#include "kernels/volume.hpp"

#include <type_traits>

namespace bora::kernels {
namespace {

struct Share {
  double decay, begin;
  const StepScalars* scalars;
  float* share;
  BORA_HD void operator()(int64_t) const {
    *share = scalars->skip != 0
                 ? 0.0f
                 : static_cast<float>(1.0 - ema_decay(decay, scalars->updates - begin));
  }
};

struct Average {
  const float* share;
  template <class A>
  BORA_HD A operator()(A average, A value) const {
    const A s = static_cast<A>(*share);
    return s == A(0) ? average : average + s * (value - average);  // -0 + 0 would be +0
  }
};

template <class T>
struct Swap {
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  T* a;
  T* b;
  BORA_HD void operator()(int64_t i) const {
    const T was = a[i];
    a[i] = b[i];
    b[i] = was;
  }
};

void check_pair(const Tensor& a, const Tensor& b, const char* what) {
  BORA_CHECK(a.defined() && b.defined(), what, ": a tensor is undefined");
  BORA_CHECK(a.dtype() == DType::f32 || a.dtype() == DType::f64, what, ": got ", a.dtype(),
             ", wanted f32 (or f64)");
  check_tensor(b, a.shape(), a.dtype(), a.device(), what);
}

}  // namespace

void ema_share(Stream stream, double decay, int64_t begin, const Tensor& scalars, Tensor& share) {
  BORA_CHECK(decay > 0 && decay < 1, "ema: decay is ", decay, ", wanted above 0 and below 1");
  BORA_CHECK(begin >= 0, "ema: it begins after ", begin, " updates");
  BORA_CHECK(share.defined(), "ema: share is undefined");
  check_tensor(share, Shape{}, DType::f32, share.device(), "ema: share");
  check_tensor(scalars, {kStepScalars}, DType::f64, share.device(), "ema: scalars");
  for_each(
      stream, 1,
      Share{decay, static_cast<double>(begin),
            reinterpret_cast<const StepScalars*>(scalars.data<double>()), share.data<float>()});
}

void ema_update(Stream stream, const Tensor& share, const Tensor& values, Tensor& average) {
  check_pair(values, average, "ema");
  check_tensor(share, Shape{}, DType::f32, values.device(), "ema: share");
  map(stream, "ema", Average{share.data<float>()}, average, average, values);
}

void swap_contents(Stream stream, Tensor& a, Tensor& b) {
  check_pair(a, b, "swap_contents");
  if (a.dtype() == DType::f64)
    return for_each(stream, a.numel(), Swap<double>{a.data<double>(), b.data<double>()});
  for_each(stream, a.numel(), Swap<float>{a.data<float>(), b.data<float>()});
}

}  // namespace bora::kernels
