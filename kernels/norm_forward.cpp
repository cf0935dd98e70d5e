// SPDX-License-Identifier: Apache-2.0
// y = act((x - mean) rstd gamma + beta + residual).
#include "kernels/norm.hpp"
#include "kernels/norm_checks.hpp"
#include "kernels/norm_generic.hpp"
#include "kernels/norm_lanes.hpp"

namespace bora::kernels {
namespace {

/// A run: the loop that all time goes to.  x - mean first, since x and mean may be large and close.
template <class T, class Act>
void forward_run(const T* x, const T* residual, T* y, int64_t n, const NormLanes<acc_t<T>>& f,
                 const Act& act) {
  using A = acc_t<T>;
  const A* const mean = f.mean;
  const A* const scale = f.scale;
  const A* const shift = f.shift;
  if (residual) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      const A z = (static_cast<A>(x[j]) - mean[j]) * scale[j] + shift[j];
      y[j] = static_cast<T>(act.value(z + static_cast<A>(residual[j])));
    }
  } else {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j)
      y[j] = static_cast<T>(act.value((static_cast<A>(x[j]) - mean[j]) * scale[j] + shift[j]));
  }
}

template <class T, class Act>
void forward_cpu(const NormShape& shape, const Act& act, const NormInput& in, Tensor& y) {
  using A = acc_t<T>;
  const LanePlan plan(shape.rows, shape.channels);
  const T* const x = in.x.data<T>();
  const T* const residual = in.residual.defined() ? in.residual.data<T>() : nullptr;
  T* const out = y.data<T>();
  for_each_slab(shape.samples, plan, true, [&](int64_t n, int64_t slab) {
    LaneArrays<A> arrays(NormLanes<A>::kArrays, plan.lanes);
    const NormLanes<A> f(shape, in, n, plan.lanes, arrays);
    const int64_t begin = (n * shape.rows + plan.slab_begin(slab)) * shape.channels;
    const int64_t end = (n * shape.rows + plan.slab_end(slab)) * shape.channels;
    for (int64_t i = begin; i < end; i += plan.lanes)
      forward_run<T>(x + i, residual ? residual + i : nullptr, out + i,
                     std::min(plan.lanes, end - i), f, act);
  });
}

}  // namespace

void norm_forward(Stream stream, const NormShape& shape, const FusedActivation& activation,
                  const NormInput& in, Tensor& y) {
  check_norm("norm_forward", shape, in);
  check_norm_like("norm_forward", in.x, y, "y");
  if (stream.device.type != DeviceType::cpu)
    return generic::norm_forward(stream, shape, activation, in, y);
  dispatch_float(in.x.dtype(), "norm_forward", [&]<class T>() {
    dispatch_activation(activation, [&](auto act) { forward_cpu<T>(shape, act, in, y); });
  });
}

}  // namespace bora::kernels
