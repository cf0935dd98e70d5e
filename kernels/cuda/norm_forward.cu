// SPDX-License-Identifier: Apache-2.0
// y = act((x - mean) rstd gamma + beta + residual).  By hand: the generic loop looks up a channel's
// five numbers with two divisions for each element.  Floor: one read of x (and of the residual),
// one write of y.  Slabs go backwards, since the end of x is what the moments' pass left in the
// cache.
#include "kernels/cuda/activation.hpp"
#include "kernels/cuda/norm.hpp"
#include "kernels/cuda/norm_factors.hpp"

namespace bora::kernels::cuda {
namespace {

constexpr int kBatch = 2;  // packs in flight: x and residual; more costs a block an SM

template <class T, class Act>
__device__ Bits128 forward_pack(const Bits128& x, const Bits128& residual, bool has_residual,
                                const LaneFactors<T, 3>& f, const Act& act) {
  acc_t<T> z[kPack<T>], r[kPack<T>];
  unpack<T>(x, z);
  BORA_UNROLL
  for (int j = 0; j < kPack<T>; ++j)
    z[j] = multiply_add(f.centred(z[j], j), f.scale(j), f.shift(j));
  if (has_residual) {
    unpack<T>(residual, r);
    BORA_UNROLL
    for (int j = 0; j < kPack<T>; ++j) z[j] += r[j];
  }
  BORA_UNROLL
  for (int j = 0; j < kPack<T>; ++j) z[j] = act.value(z[j]);
  return pack<T>(z);
}

template <class T, class Act, bool kWhole>
__global__ void __launch_bounds__(kLaneThreads, kWhole ? 4 : 1)
    norm_forward_slabs(ChannelLanes plan, NormTables<acc_t<T>> tables, Act act, const T* x,
                       const T* residual, T* y) {
  constexpr int V = kPack<T>;
  BORA_DYNAMIC_SHARED(acc_t<T>, shared);
  const LaneWalk walk(plan, gridDim.x - 1 - blockIdx.x, V);
  const LaneFactors<T, 3> f(plan, tables, walk.sample, shared);
  const bool adds = residual != nullptr;
  int64_t at = walk.offset;
  int32_t i = 0;
  for (; i + kBatch <= walk.n_packs; i += kBatch, at += kBatch * walk.stride) {
    Bits128 from[kBatch], rest[kBatch] = {};
    BORA_UNROLL
    for (int u = 0; u < kBatch; ++u) from[u] = load_some(x + at + u * walk.stride, V, kWhole);
    if (adds) {
      BORA_UNROLL
      for (int u = 0; u < kBatch; ++u)
        rest[u] = load_some(residual + at + u * walk.stride, V, kWhole);
    }
    BORA_UNROLL
    for (int u = 0; u < kBatch; ++u)
      store_some(y + at + u * walk.stride, forward_pack<T>(from[u], rest[u], adds, f, act), V,
                 kWhole);
  }
  const auto one = [&](int64_t place, int n) {
    const Bits128 from = load_some(x + place, n, kWhole);
    const Bits128 rest = adds ? load_some(residual + place, n, kWhole) : Bits128{};
    store_some(y + place, forward_pack<T>(from, rest, adds, f, act), n, kWhole);
  };
  if (i < walk.n_packs) one(at, V);
  if (!kWhole && walk.n_cut > 0) one(walk.cut_offset, walk.n_cut);
}

}  // namespace

void norm_forward(Stream stream, const NormShape& shape, const FusedActivation& activation,
                  const NormInput& in, Tensor& y) {
  constexpr const char* kOp = "norm_forward";
  if (shape.numel() == 0) return;
  dispatch_device_float(in.x.dtype(), kOp, [&]<class T>() {
    const ChannelLanes plan(shape.samples, shape.rows, shape.channels, kPack<T>);
    const NormTables<acc_t<T>> tables(shape, in, Tensor());
    const T* const x = in.x.data<T>();
    const T* const residual = data_or_null<T>(in.residual);
    T* const out = y.data<T>();
    dispatch_device_activation<T>(activation, [&]<class Act>(const Act& act) {
      launch(kOp, stream, plan.launch_shape(LaneFactors<T, 3>::bytes(plan)),
             plan.whole(x, residual, out) ? norm_forward_slabs<T, Act, true>
                                          : norm_forward_slabs<T, Act, false>,
             plan, tables, act, x, residual, out);
    });
  });
}

}  // namespace bora::kernels::cuda
