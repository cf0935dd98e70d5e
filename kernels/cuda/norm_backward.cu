// SPDX-License-Identifier: Apache-2.0
// Backward of norms.  By hand: see norm_forward.cu and norm_moments.cu.  Floors: sums read dy and
// x; apply reads dy and x and writes dx.
#include "kernels/cuda/activation.hpp"
#include "kernels/cuda/norm.hpp"
#include "kernels/cuda/norm_gradient.hpp"

namespace bora::kernels::cuda {

void norm_backward_sums(Stream stream, const NormShape& shape, const FusedActivation& activation,
                        const NormInput& in, const Tensor& dy, Tensor& sums, Tensor& dz) {
  constexpr const char* kOp = "norm_backward_sums";
  if (shape.samples == 0) return;
  dispatch_device_float(in.x.dtype(), kOp, [&]<class T>() {
    constexpr int V = kPack<T>;
    const ChannelLanes plan(shape.samples, shape.rows, shape.channels, V);
    const NormTables<acc_t<T>> tables(shape, in, Tensor());
    Tensor parts =
        Tensor::empty({shape.samples, plan.slabs, 2, plan.slots(V)}, DType::f64, stream.device);
    const T* const x = in.x.data<T>();
    const T* const residual = data_or_null<T>(in.residual);
    T* const kept = dz.defined() ? dz.data<T>() : nullptr;
    const TensorGradient<T> source{dy.data<T>()};
    const size_t shared =
        std::max(row_sum_bytes(plan, V < 4 ? V : 4), LaneFactors<T, 3>::bytes(plan));
    dispatch_device_activation<T>(activation, [&]<class Act>(const Act& act) {
      launch(kOp, stream, plan.launch_shape(shared),
             plan.whole(x, residual, source.dy, kept)
                 ? norm_sums_slabs<T, Act, TensorGradient<T>, true>
                 : norm_sums_slabs<T, Act, TensorGradient<T>, false>,
             plan, tables, act, x, residual, source, kept, parts.data<double>());
    });
    launch(kOp, stream, merge_shape(shape.samples, shape.channels), norm_sums_merge<acc_t<T>>, plan,
           tables, V, parts.data<double>(), sums.data<double>());
  });
}

void norm_backward_apply(Stream stream, const NormShape& shape, const FusedActivation& activation,
                         const NormInput& in, const Tensor& dy, const Tensor& dz,
                         const Tensor& coefficients, Tensor& dx) {
  constexpr const char* kOp = "norm_backward_apply";
  if (shape.numel() == 0) return;
  // With dz at hand there is no derivative left to take.
  const FusedActivation rest = dz.defined() ? FusedActivation{} : activation;
  dispatch_device_float(in.x.dtype(), kOp, [&]<class T>() {
    const ChannelLanes plan(shape.samples, shape.rows, shape.channels, kPack<T>);
    const NormTables<acc_t<T>> tables(shape, in, coefficients);
    const T* const x = in.x.data<T>();
    const T* const residual = data_or_null<T>(in.residual);
    const TensorGradient<T> source{(dz.defined() ? dz : dy).data<T>()};
    T* const out = dx.data<T>();
    dispatch_device_activation<T>(rest, [&]<class Act>(const Act& act) {
      launch(kOp, stream, plan.launch_shape(LaneFactors<T, 5>::bytes(plan)),
             plan.whole(x, residual, source.dy, out)
                 ? norm_apply_slabs<T, Act, TensorGradient<T>, true>
                 : norm_apply_slabs<T, Act, TensorGradient<T>, false>,
             plan, tables, act, x, residual, source, out);
    });
  });
}

}  // namespace bora::kernels::cuda
