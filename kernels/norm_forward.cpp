// SPDX-License-Identifier: Apache-2.0
// y = act((x - mean) rstd gamma + beta + residual).
#include "core/convert.hpp"
#include "kernels/cuda/norm.hpp"
#include "kernels/norm.hpp"
#include "kernels/norm_checks.hpp"
#include "kernels/norm_lanes.hpp"

namespace bora::kernels {
namespace {

/// A run: the loop that all time goes to.  x - mean first, since x and mean may be large and close.
template <class A, class Act>
void forward_run(const A* x, const A* residual, A* y, int64_t n, const NormLanes<A>& f,
                 const Act& act) {
  const A* const mean = f.mean;
  const A* const scale = f.scale;
  const A* const shift = f.shift;
  if (residual) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      const A z = (x[j] - mean[j]) * scale[j] + shift[j];
      y[j] = act.value(z + residual[j]);
    }
  } else {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) y[j] = act.value((x[j] - mean[j]) * scale[j] + shift[j]);
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
    LaneArrays<A> arrays(NormLanes<A>::kArrays + 3, plan.lanes);
    A* const wide[3] = {arrays[NormLanes<A>::kArrays], arrays[NormLanes<A>::kArrays + 1],
                        arrays[NormLanes<A>::kArrays + 2]};
    const NormLanes<A> f(shape, in, n, plan.lanes, arrays);
    const int64_t begin = (n * shape.rows + plan.slab_begin(slab)) * shape.channels;
    const int64_t end = (n * shape.rows + plan.slab_end(slab)) * shape.channels;
    for (int64_t i = begin; i < end; i += plan.lanes) {
      const int64_t run = std::min(plan.lanes, end - i);
      A* const target = wide_target(out + i, wide[2]);
      forward_run(widen(x + i, run, wide[0]),
                  residual ? widen(residual + i, run, wide[1]) : nullptr, target, run, f, act);
      narrow(target, out + i, run);
    }
  });
}

}  // namespace

void norm_forward(Stream stream, const NormShape& shape, const FusedActivation& activation,
                  const NormInput& in, Tensor& y) {
  check_norm("norm_forward", shape, in);
  check_norm_like("norm_forward", in.x, y, "y");
  if (stream.device.type != DeviceType::cpu)
    return BORA_IF_CUDA(cuda::norm_forward(stream, shape, activation, in, y));
  dispatch_float(in.x.dtype(), "norm_forward", [&]<class T>() {
    dispatch_activation(activation, [&](auto act) { forward_cpu<T>(shape, act, in, y); });
  });
}

}  // namespace bora::kernels
