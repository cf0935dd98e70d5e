// SPDX-License-Identifier: Apache-2.0
// Backward of norms: pass 1 reads dy and x and sums, pass 2 writes dx.
#include "core/convert.hpp"
#include "kernels/cuda/norm.hpp"
#include "kernels/norm.hpp"
#include "kernels/norm_checks.hpp"
#include "kernels/norm_element.hpp"
#include "kernels/norm_lanes.hpp"

namespace bora::kernels {
namespace {

template <bool kResidual, bool kStore, class A, class Act>
void sums_run(const A* x, const A* residual, const A* dy, A* dz, int64_t n, const NormLanes<A>& f,
              A* s1, A* s2, const Act& act) {
  const A* const mean = f.mean;
  const A* const scale = f.scale;
  const A* const shift = f.shift;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const A centred = x[j] - mean[j];
    const A r = kResidual ? residual[j] : A(0);
    const A g = dz_at<A>(act, dy[j], centred, scale[j], shift[j], r);
    if constexpr (kStore) dz[j] = g;
    s1[j] += g;
    s2[j] += g * centred;
  }
}

template <class T, bool kResidual, bool kStore, class Act>
void sums_cpu(const NormShape& shape, const Act& act, const NormInput& in, const Tensor& dy_tensor,
              Tensor& sums, Tensor& dz_tensor) {
  using A = acc_t<T>;
  const LanePlan plan(shape.rows, shape.channels);
  const int64_t n_channels = shape.channels, n_lanes = plan.lanes;
  const T* const x = in.x.data<T>();
  const T* const residual = kResidual ? in.residual.data<T>() : nullptr;
  const T* const dy = dy_tensor.data<T>();
  T* const dz = kStore ? dz_tensor.data<T>() : nullptr;
  Tensor parts = Tensor::empty({shape.samples, plan.slabs, 2 * n_channels}, DType::f64);
  double* const partial = parts.data<double>();
  for_each_slab(shape.samples, plan, false, [&](int64_t n, int64_t slab) {
    constexpr int64_t k = NormLanes<A>::kArrays;
    LaneArrays<A> arrays(k + 6, n_lanes);
    const NormLanes<A> f(shape, in, n, n_lanes, arrays);
    A* const s1 = arrays[k];
    A* const s2 = arrays[k + 1];
    A* const wide[4] = {arrays[k + 2], arrays[k + 3], arrays[k + 4], arrays[k + 5]};
    double* const own = partial + (n * plan.slabs + slab) * 2 * n_channels;
    std::fill_n(own, 2 * n_channels, 0.0);
    for (int64_t row = plan.slab_begin(slab); row < plan.slab_end(slab); row += plan.tile_rows) {
      const int64_t begin = (n * shape.rows + row) * n_channels;
      const int64_t end = begin + std::min(plan.tile_rows, plan.slab_end(slab) - row) * n_channels;
      std::fill_n(s1, n_lanes, A(0));
      std::fill_n(s2, n_lanes, A(0));
      for (int64_t i = begin; i < end; i += n_lanes) {
        const int64_t run = std::min(n_lanes, end - i);
        A* const target = kStore ? wide_target(dz + i, wide[3]) : nullptr;
        sums_run<kResidual, kStore>(widen(x + i, run, wide[0]),
                                    kResidual ? widen(residual + i, run, wide[1]) : nullptr,
                                    widen(dy + i, run, wide[2]), target, run, f, s1, s2, act);
        if constexpr (kStore) narrow(target, dz + i, run);
      }
      fold_lanes(s1, n_lanes, n_channels);
      fold_lanes(s2, n_lanes, n_channels);
      for (int64_t c = 0; c < n_channels; ++c) own[c] += static_cast<double>(s1[c]);
      for (int64_t c = 0; c < n_channels; ++c) own[n_channels + c] += static_cast<double>(s2[c]);
    }
  });
  const A* const statistics = in.statistics.data<A>();
  double* const out = sums.data<double>();
  for (int64_t n = 0; n < shape.samples; ++n) {
    double* const total = out + n * 2 * n_channels;
    std::fill_n(total, 2 * n_channels, 0.0);
    const double* part = partial + n * plan.slabs * 2 * n_channels;
    for (int64_t slab = 0; slab < plan.slabs; ++slab, part += 2 * n_channels)
      for (int64_t c = 0; c < 2 * n_channels; ++c) total[c] += part[c];
    // So far with x - mean as the statistics hold the mean; now xhat.
    for (int64_t c = 0; c < n_channels; ++c) {
      const A* const s = statistics + (n * shape.groups + c / shape.group_channels()) * 3;
      total[n_channels + c] = (total[n_channels + c] - static_cast<double>(s[1]) * total[c]) *
                              static_cast<double>(s[2]);
    }
  }
}

/// dx of a run; dy is dz itself where kStored.
template <bool kResidual, bool kStored, class A, class Act>
void apply_run(const A* x, const A* residual, const A* dy, A* dx, int64_t n, const NormLanes<A>& f,
               const A* c0, const A* c1, const Act& act) {
  const A* const mean = f.mean;
  const A* const scale = f.scale;
  const A* const shift = f.shift;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const A centred = x[j] - mean[j];
    const A r = kResidual ? residual[j] : A(0);
    const A g = kStored ? dy[j] : dz_at<A>(act, dy[j], centred, scale[j], shift[j], r);
    dx[j] = g * scale[j] + (centred * c0[j] + c1[j]);
  }
}

template <class T, bool kStored, class Act>
void apply_cpu(const NormShape& shape, const Act& act, const NormInput& in, const Tensor& dy_tensor,
               const Tensor& dz_tensor, const Tensor& coefficients, Tensor& dx_tensor) {
  using A = acc_t<T>;
  const LanePlan plan(shape.rows, shape.channels);
  const int64_t n_lanes = plan.lanes;
  const T* const x = in.x.data<T>();
  const T* const residual = in.residual.defined() ? in.residual.data<T>() : nullptr;
  const T* const dy = (kStored ? dz_tensor : dy_tensor).data<T>();
  const A* const factors = coefficients.data<A>();
  T* const dx = dx_tensor.data<T>();
  for_each_slab(shape.samples, plan, true, [&](int64_t n, int64_t slab) {
    constexpr int64_t k = NormLanes<A>::kArrays;
    LaneArrays<A> arrays(k + 6, n_lanes);
    const NormLanes<A> f(shape, in, n, n_lanes, arrays);
    A* const c0 = arrays[k];
    A* const c1 = arrays[k + 1];
    A* const wide[4] = {arrays[k + 2], arrays[k + 3], arrays[k + 4], arrays[k + 5]};
    for (int64_t c = 0; c < shape.channels; ++c) {
      const A* const factor = factors + (n * shape.groups + c / shape.group_channels()) * 2;
      c0[c] = factor[0];
      c1[c] = factor[1];
    }
    spread_lanes(c0, n_lanes, shape.channels);
    spread_lanes(c1, n_lanes, shape.channels);
    const int64_t begin = (n * shape.rows + plan.slab_begin(slab)) * shape.channels;
    const int64_t end = (n * shape.rows + plan.slab_end(slab)) * shape.channels;
    for (int64_t i = begin; i < end; i += n_lanes) {
      const int64_t run = std::min(n_lanes, end - i);
      const A* const xi = widen(x + i, run, wide[0]);
      const A* const gi = widen(dy + i, run, wide[2]);
      A* const target = wide_target(dx + i, wide[3]);
      if (!kStored && residual)
        apply_run<true, kStored>(xi, widen(residual + i, run, wide[1]), gi, target, run, f, c0, c1,
                                 act);
      else
        apply_run<false, kStored, A>(xi, nullptr, gi, target, run, f, c0, c1, act);
      narrow(target, dx + i, run);
    }
  });
}

}  // namespace

void norm_backward_sums(Stream stream, const NormShape& shape, const FusedActivation& activation,
                        const NormInput& in, const Tensor& dy, Tensor& sums, Tensor& dz) {
  constexpr const char* kOp = "norm_backward_sums";
  check_norm(kOp, shape, in);
  check_norm_like(kOp, in.x, dy, "dy");
  check_norm_tensor(kOp, sums, {shape.samples, 2 * shape.channels}, DType::f64, "sums");
  if (dz.defined()) check_norm_like(kOp, in.x, dz, "dz");
  if (stream.device.type != DeviceType::cpu)
    return BORA_IF_CUDA(cuda::norm_backward_sums(stream, shape, activation, in, dy, sums, dz));
  dispatch_float(in.x.dtype(), kOp, [&]<class T>() {
    dispatch_activation(activation, [&](auto act) {
      const bool residual = in.residual.defined();
      if (residual && dz.defined()) return sums_cpu<T, true, true>(shape, act, in, dy, sums, dz);
      if (residual) return sums_cpu<T, true, false>(shape, act, in, dy, sums, dz);
      if (dz.defined()) return sums_cpu<T, false, true>(shape, act, in, dy, sums, dz);
      return sums_cpu<T, false, false>(shape, act, in, dy, sums, dz);
    });
  });
}

void norm_backward_apply(Stream stream, const NormShape& shape, const FusedActivation& activation,
                         const NormInput& in, const Tensor& dy, const Tensor& dz,
                         const Tensor& coefficients, Tensor& dx) {
  constexpr const char* kOp = "norm_backward_apply";
  check_norm(kOp, shape, in);
  check_norm_like(kOp, in.x, dz.defined() ? dz : dy, dz.defined() ? "dz" : "dy");
  check_norm_tensor(kOp, coefficients, {shape.samples, shape.groups, 2}, norm_parameter_type(in.x),
                    "coefficients");
  check_norm_like(kOp, in.x, dx, "dx");
  if (stream.device.type != DeviceType::cpu)
    return BORA_IF_CUDA(
        cuda::norm_backward_apply(stream, shape, activation, in, dy, dz, coefficients, dx));
  dispatch_float(in.x.dtype(), kOp, [&]<class T>() {
    if (dz.defined()) return apply_cpu<T, true>(shape, IdentityAt{}, in, dy, dz, coefficients, dx);
    dispatch_activation(activation, [&](auto act) {
      apply_cpu<T, false>(shape, act, in, dy, dz, coefficients, dx);
    });
  });
}

}  // namespace bora::kernels
