// SPDX-License-Identifier: Apache-2.0
// By hand: outputs are summed over the lanes of a cell by shuffles, weights stay in registers.
#include "kernels/cuda/head.hpp"

#include "kernels/cuda/head_lanes.hpp"
#include "kernels/volume.hpp"

namespace bora::kernels::cuda {
namespace {

/// A cell is a group of `group` threads of a warp (a power of two), of which the first `lanes` hold
/// a pack each.
template <class T, int K>
__global__ void __launch_bounds__(kBlockThreads, K < 4 ? 4 : 2)
    head_forward_cells(int64_t cells, int lanes, int log_group, int n_out, const T* __restrict__ x,
                       const T* __restrict__ w, const T* __restrict__ bias, T* __restrict__ y) {
  constexpr int V = kPack<T>, kBatch = 2;
  using A = acc_t<T>;
  const int group = 1 << log_group, lane = static_cast<int>(threadIdx.x) & (group - 1);
  const bool active = lane < lanes;
  A weights[K][V];
  load_weights<T, K>(w, n_out, static_cast<int64_t>(lanes) * V, lane, active, weights);
  const int64_t block_cells = kBlockThreads >> log_group;
  const int64_t step = gridDim.x * block_cells;
  // All threads go round equally often: the shuffles want whole warps.
  for (int64_t first = blockIdx.x * block_cells; first < cells; first += kBatch * step) {
    const int64_t cell = first + (threadIdx.x >> log_group);
    Bits128 bits[kBatch];
    BORA_UNROLL
    for (int u = 0; u < kBatch; ++u)
      bits[u] = active && cell + u * step < cells
                    ? load_bits(x + ((cell + u * step) * lanes + lane) * V)
                    : Bits128{};
    BORA_UNROLL
    for (int u = 0; u < kBatch; ++u) {
      A sum[K];
      cell_outputs<T, K>(bits[u], weights, group, sum);
      if (cell + u * step >= cells) continue;
      BORA_UNROLL
      for (int k = 0; k < K; ++k)
        if (k < n_out && (k & (group - 1)) == lane)
          y[(cell + u * step) * n_out + k] = static_cast<T>(sum[k] + (bias ? load(bias[k]) : A(0)));
    }
  }
}

/// Block (lanes, rows): a thread stays on its channels.
template <class T, int K>
__global__ void __launch_bounds__(kLaneThreads)
    head_data_packs(int64_t cells, int n_out, const T* __restrict__ dy, const T* __restrict__ w,
                    T* __restrict__ dx) {
  constexpr int V = kPack<T>;
  using A = acc_t<T>;
  const auto lane = static_cast<int>(threadIdx.x), lanes = static_cast<int>(blockDim.x);
  A weights[K][V];
  load_weights<T, K>(w, n_out, static_cast<int64_t>(lanes) * V, lane, true, weights);
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
  for (int64_t cell = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; cell < cells;
       cell += step) {
    A v[V] = {};
    BORA_UNROLL
    for (int k = 0; k < K; ++k) {
      const A g = k < n_out ? load(dy[cell * n_out + k]) : A(0);
      BORA_UNROLL
      for (int j = 0; j < V; ++j) v[j] = multiply_add(g, weights[k][j], v[j]);
    }
    store_bits(dx + (cell * lanes + lane) * V, pack<T>(v));
  }
}

/// parts (slabs, n_out, channels).
template <class T, int K>
__global__ void __launch_bounds__(kLaneThreads, K < 4 ? 4 : 2)
    head_weights_slabs(ChannelLanes plan, int n_out, const T* __restrict__ x,
                       const T* __restrict__ dy, double* __restrict__ parts) {
  constexpr int V = kPack<T>, kBatch = 2, kAtOnce = V < 4 ? V : 4;
  using A = acc_t<T>;
  BORA_DYNAMIC_SHARED(double, shared);
  const LaneWalk walk(plan, blockIdx.x, V);
  A sums[K][V] = {};
  const T* from = x + walk.offset;
  int64_t cell = walk.period;
  const auto take = [&](const Bits128& bits, int64_t at) {
    A v[V];
    unpack<T>(bits, v);
    BORA_UNROLL
    for (int k = 0; k < K; ++k) {
      const A g = k < n_out ? load(dy[at * n_out + k]) : A(0);
      BORA_UNROLL
      for (int j = 0; j < V; ++j) sums[k][j] = multiply_add(g, v[j], sums[k][j]);
    }
  };
  int32_t i = 0;
  for (; i + kBatch <= walk.n_packs; i += kBatch, from += kBatch * walk.stride) {
    Bits128 bits[kBatch];
    BORA_UNROLL
    for (int u = 0; u < kBatch; ++u) bits[u] = load_bits(from + u * walk.stride);
    BORA_UNROLL
    for (int u = 0; u < kBatch; ++u, cell += plan.block_rows) take(bits[u], cell);
  }
  if (i < walk.n_packs) take(load_bits(from), cell);
  double* const out = parts + static_cast<int64_t>(walk.slab) * n_out * plan.channels;
  BORA_UNROLL
  for (int k = 0; k < K; ++k) {
    if (k >= n_out) break;
    BORA_UNROLL
    for (int begin = 0; begin < V; begin += kAtOnce) {
      double sum[kAtOnce];
      BORA_UNROLL
      for (int j = 0; j < kAtOnce; ++j) sum[j] = static_cast<double>(sums[k][begin + j]);
      sum_rows(sum, shared);
      if (threadIdx.y == 0) {
        BORA_UNROLL
        for (int j = 0; j < kAtOnce; ++j)
          out[k * plan.channels + walk.lane * V + begin + j] = sum[j];
      }
    }
  }
}

unsigned grid_for(int64_t cells, int64_t block_cells) {
  return static_cast<unsigned>(
      std::clamp<int64_t>((cells + block_cells - 1) / block_cells, 1, 4096));
}

}  // namespace

bool head_applies(const Conv3dAttributes& a, const Tensor& x, const Tensor& w, const Tensor& y) {
  const Dims3 one = Dims3::all(1);
  if (!(x.rank() == 5 && w.rank() == 5 && y.rank() == 5)) return false;
  const bool pointwise = w.size(1) == 1 && w.size(2) == 1 && w.size(3) == 1 && a.groups == 1 &&
                         a.stride == one && a.padding == Dims3::all(0);
  const int64_t pack = pack_elements(x.dtype()), channels = x.size(4);
  return pointwise && w.size(0) >= 1 && w.size(0) <= kHeadOutputs && channels >= pack &&
         channels % pack == 0 && channels / pack <= kHeadLanes && x.dtype() == y.dtype() &&
         aligned(x.raw()) && aligned(w.raw());
}

void head_forward(Stream stream, const Tensor& x, const Tensor& w, const Tensor& bias, Tensor& y) {
  constexpr const char* kOp = "head_forward";
  BORA_CHECK(head_applies({}, x, w, y) && w.dtype() == x.dtype(), kOp, ": x ", x.shape(), ", w ",
             w.shape(), ", y ", y.shape(), "; see head_applies");
  const Volume v = volume_of(x, kOp);
  const int64_t n_out = w.size(0);
  check_tensor(y, {v.n, v.size.d, v.size.h, v.size.w, n_out}, x.dtype(), x.device(), kOp);
  if (bias.defined()) check_tensor(bias, {n_out}, x.dtype(), x.device(), kOp);
  if (y.numel() == 0) return;
  dispatch_device_float(x.dtype(), kOp, [&]<class T>() {
    const auto lanes = static_cast<int>(v.c / kPack<T>);
    const int log_group = log_group_of(lanes);
    const LaunchShape shape{.grid = grid_for(v.cells(), 2 * (kBlockThreads >> log_group))};
    dispatch_outputs(n_out, [&]<int K>() {
      launch(kOp, stream, shape, head_forward_cells<T, K>, v.cells(), lanes, log_group,
             static_cast<int>(n_out), x.data<T>(), w.data<T>(),
             bias.defined() ? bias.data<T>() : nullptr, y.data<T>());
    });
  });
}

void head_backward_data(Stream stream, const Tensor& dy, const Tensor& w, Tensor& dx) {
  constexpr const char* kOp = "head_backward_data";
  BORA_CHECK(head_applies({}, dx, w, dy) && w.dtype() == dx.dtype(), kOp, ": dx ", dx.shape(),
             ", w ", w.shape(), ", dy ", dy.shape(), "; see head_applies");
  const Volume v = volume_of(dx, kOp);
  const int64_t n_out = w.size(0);
  check_tensor(dy, {v.n, v.size.d, v.size.h, v.size.w, n_out}, dx.dtype(), dx.device(), kOp);
  if (dx.numel() == 0) return;
  dispatch_device_float(dx.dtype(), kOp, [&]<class T>() {
    const auto lanes = static_cast<unsigned>(v.c / kPack<T>);
    const unsigned rows = kLaneThreads / lanes;
    const LaunchShape shape{.grid = grid_for(v.cells(), 4 * rows), .block = dim3(lanes, rows)};
    dispatch_outputs(n_out, [&]<int K>() {
      launch(kOp, stream, shape, head_data_packs<T, K>, v.cells(), static_cast<int>(n_out),
             dy.data<T>(), w.data<T>(), dx.data<T>());
    });
  });
}

void head_backward_weights(Stream stream, const Tensor& x, const Tensor& dy, GradientMode mode,
                           Tensor& dw) {
  constexpr const char* kOp = "head_backward_weights";
  const Volume v = volume_of(x, kOp);
  BORA_CHECK(dy.defined() && dy.rank() == 5, kOp, ": dy is ", dy.shape());
  const int64_t n_out = dy.size(4), n = n_out * v.c;
  check_tensor(dy, {v.n, v.size.d, v.size.h, v.size.w, n_out}, x.dtype(), x.device(), kOp);
  BORA_CHECK(dw.defined() && dw.shape() == Shape({n_out, 1, 1, 1, v.c}) &&
                 (dw.dtype() == x.dtype() || dw.dtype() == DType::f32) && n_out <= kHeadOutputs &&
                 v.c % pack_elements(x.dtype()) == 0 &&
                 v.c / pack_elements(x.dtype()) <= kHeadLanes && aligned(x.raw()),
             kOp, ": dw ", dw.shape(), " ", dw.dtype(), " of x ", x.shape(), " ", x.dtype(),
             "; see head_applies");
  if (n == 0) return;
  dispatch_device_float(x.dtype(), kOp, [&]<class T>() {
    constexpr int V = kPack<T>;
    const ChannelLanes plan(1, v.cells(), v.c, V);
    Tensor parts = Tensor::empty({plan.slabs, n}, DType::f64, stream.device);
    dispatch_outputs(n_out, [&]<int K>() {
      launch(kOp, stream, plan.launch_shape(row_sum_bytes(plan, V < 4 ? V : 4)),
             head_weights_slabs<T, K>, plan, static_cast<int>(n_out), x.data<T>(), dy.data<T>(),
             parts.data<double>());
    });
    dispatch_device_float(dw.dtype(), kOp, [&]<class W>() {
      launch(kOp, stream, merge_shape(1, n), head_slabs_merge<W>, plan.slabs, static_cast<int>(n),
             n, mode == GradientMode::add, parts.data<double>(), dw.data<W>());
    });
  });
}

}  // namespace bora::kernels::cuda
