// SPDX-License-Identifier: Apache-2.0
// By hand: a cell's outputs are summed over its lanes by shuffles and stay in registers, as do the
// sums of the loss and of the weights' gradient.
#include "kernels/cuda/head_loss.hpp"

#include "kernels/cuda/head_loss_terms.hpp"
#include "kernels/loss_checks.hpp"

namespace bora::kernels::cuda {
namespace {

constexpr int kBatch = 2;  // cells that a thread has in flight

/// Cells of a sample in slabs, a function of the shape alone.  A block is (group, rows) threads: a
/// group of lanes for a cell, as in head_lanes.hpp.
struct HeadSlabs {
  int64_t cells, slab_cells = 0;
  int32_t slabs = 1, samples, lanes, log_group, n_out;

  HeadSlabs(int64_t n_samples, int64_t n_cells, int n_lanes, int outputs)
      : cells(n_cells),
        samples(static_cast<int32_t>(n_samples)),
        lanes(n_lanes),
        log_group(log_group_of(n_lanes)),
        n_out(outputs) {
    constexpr int64_t kMaxSlabs = 1024;
    // 16 cells a thread at least, so that the sums at a slab's end do not outweigh them.
    const int64_t unit = int64_t{kBatch} * rows();
    const int64_t wanted = std::clamp<int64_t>(cells / (8 * unit), 1, kMaxSlabs);
    const int64_t units = (cells + unit - 1) / unit;
    slab_cells = std::max<int64_t>((units + wanted - 1) / wanted, 1) * unit;
    slabs = static_cast<int32_t>(std::max<int64_t>((cells + slab_cells - 1) / slab_cells, 1));
    BORA_CHECK(n_samples * slabs < (int64_t{1} << 31), "head slabs: ", n_samples, " samples of ",
               slabs, " slabs are more than a grid holds");
  }
  int rows() const { return kLaneThreads >> log_group; }
  /// With shared memory for sum_rows of v numbers.
  LaunchShape launch_shape(int v) const {
    LaunchShape shape;
    shape.grid = dim3(static_cast<unsigned>(samples * slabs));
    shape.block = dim3(1u << log_group, static_cast<unsigned>(rows()));
    shape.shared_bytes = static_cast<size_t>(kLaneThreads * v) * sizeof(double) / 2;
    return shape;
  }
};

/// take(bits, outputs, cell, there) for each cell of the block's slab: this thread's pack of it,
/// its outputs, its number in the batch; `there` false behind the slab's end.  Whole warps go
/// round.
template <class T, int K, class Take>
__device__ void walk_cells(const HeadSlabs& plan, const T* x,
                           const acc_t<T> (&weights)[K][kPack<T>], const T* bias,
                           const Take& take) {
  using A = acc_t<T>;
  const int lane = static_cast<int>(threadIdx.x), rows = static_cast<int>(blockDim.y);
  const bool active = lane < plan.lanes;
  A add[K];
  BORA_UNROLL
  for (int k = 0; k < K; ++k) add[k] = bias && k < plan.n_out ? load(bias[k]) : A(0);
  const int sample = static_cast<int>(blockIdx.x) / plan.slabs;
  const int64_t base = sample * plan.cells;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) % plan.slabs * plan.slab_cells;
  const int64_t stop = begin + plan.slab_cells, end = stop < plan.cells ? stop : plan.cells;
  for (int64_t first = begin; first < end; first += kBatch * rows) {
    const int64_t cell = first + threadIdx.y;
    Bits128 bits[kBatch];
    BORA_UNROLL
    for (int u = 0; u < kBatch; ++u)
      bits[u] = active && cell + u * rows < end
                    ? load_bits(x + ((base + cell + u * rows) * plan.lanes + lane) * kPack<T>)
                    : Bits128{};
    BORA_UNROLL
    for (int u = 0; u < kBatch; ++u) {
      A outputs[K];
      cell_outputs<T, K>(bits[u], weights, 1 << plan.log_group, outputs);
      BORA_UNROLL
      for (int k = 0; k < K; ++k) outputs[k] += add[k];
      take(bits[u], outputs, base + cell + u * rows, cell + u * rows < end);
    }
  }
}

/// parts (samples, slabs, numbers of the loss).
template <class T, int K, int G, class Loss>
__global__ void __launch_bounds__(kLaneThreads, K < 4   ? 4
                                                : K < 8 ? 2
                                                        : 1)
    head_loss_sums_slabs(HeadSlabs plan, const T* __restrict__ x, const T* __restrict__ w,
                         const T* __restrict__ bias, Loss loss, int numbers,
                         double* __restrict__ parts) {
  using A = acc_t<T>;
  BORA_DYNAMIC_SHARED(double, shared);
  const auto lane = static_cast<int>(threadIdx.x);
  const OwnOutputs<K, G> own{lane, plan.n_out};
  A weights[K][kPack<T>];
  load_weights<T, K>(w, plan.n_out, static_cast<int64_t>(plan.lanes) * kPack<T>, lane,
                     lane < plan.lanes, weights);
  typename Loss::template Sums<OwnOutputs<K, G>> sums;
  walk_cells<T, K>(plan, x, weights, bias,
                   [&](const Bits128&, const A(&outputs)[K], int64_t cell, bool there) {
                     loss.add(own, sums, outputs, cell, there);
                   });
  loss.store(own, sums, 1 << plan.log_group, shared,
             parts + static_cast<int64_t>(blockIdx.x) * numbers);
}

/// dx, and parts (samples, slabs, n_out * channels + n_out) of dw and db.
template <class T, int K, int G, class Loss>
__global__ void __launch_bounds__(kLaneThreads, K < 4   ? 3
                                                : K < 8 ? 2
                                                        : 1)
    head_loss_gradient_slabs(HeadSlabs plan, const T* __restrict__ x, const T* __restrict__ w,
                             const T* __restrict__ bias, Loss loss, T* __restrict__ dx,
                             double* __restrict__ parts) {
  constexpr int V = kPack<T>, kAtOnce = V < 4 ? V : 4;
  using A = acc_t<T>;
  using Own = OwnOutputs<K, G>;
  BORA_DYNAMIC_SHARED(double, shared);
  const auto lane = static_cast<int>(threadIdx.x);
  const bool active = lane < plan.lanes;
  const Own own{lane, plan.n_out};
  const int channels = plan.lanes * V;
  A weights[K][V];
  load_weights<T, K>(w, plan.n_out, channels, lane, active, weights);
  const auto slopes = loss.prepare(own, static_cast<int>(blockIdx.x) / plan.slabs);
  A dw[K][V] = {}, db[Own::kOwn] = {};
  walk_cells<T, K>(plan, x, weights, bias,
                   [&](const Bits128& bits, const A(&outputs)[K], int64_t cell, bool there) {
                     A g_own[Own::kOwn], g[K], v[V], d[V] = {};
                     loss.gradient(own, slopes, outputs, cell, there, g_own);
                     BORA_UNROLL
                     for (int i = 0; i < Own::kOwn; ++i) db[i] += own.counts() ? g_own[i] : A(0);
                     own.spread(g_own, g);
                     unpack<T>(bits, v);
                     BORA_UNROLL
                     for (int k = 0; k < K; ++k) {
                       BORA_UNROLL
                       for (int j = 0; j < V; ++j) {
                         d[j] = multiply_add(g[k], weights[k][j], d[j]);
                         dw[k][j] = multiply_add(g[k], v[j], dw[k][j]);
                       }
                     }
                     if (dx && active && there)
                       store_bits(dx + (cell * plan.lanes + lane) * V, pack<T>(d));
                   });
  double* const out = parts + static_cast<int64_t>(blockIdx.x) * plan.n_out * (channels + 1);
  BORA_UNROLL
  for (int k = 0; k < K; ++k) {
    if (k >= plan.n_out) break;
    BORA_UNROLL
    for (int begin = 0; begin < V; begin += kAtOnce) {
      double sum[kAtOnce];
      BORA_UNROLL
      for (int j = 0; j < kAtOnce; ++j) sum[j] = static_cast<double>(dw[k][begin + j]);
      sum_rows(sum, shared);
      if (threadIdx.y != 0 || !active) continue;
      BORA_UNROLL
      for (int j = 0; j < kAtOnce; ++j) out[k * channels + lane * V + begin + j] = sum[j];
    }
  }
  BORA_UNROLL
  for (int i = 0; i < Own::kOwn; ++i) {
    double sum[1] = {static_cast<double>(db[i])};
    sum_rows(sum, shared);
    if (threadIdx.y == 0 && own.counts() && own.there(i))
      out[plan.n_out * channels + own.output(i)] = sum[0];
  }
}

/// f<K, G>().
template <class F>
void dispatch_own(const HeadSlabs& plan, const F& f) {
  const int group = 1 << plan.log_group;
  if (plan.n_out == 1) return f.template operator()<1, 1>();
  if (plan.n_out <= 4)
    return group >= 4 ? f.template operator()<4, 4>() : f.template operator()<4, 1>();
  group >= 8 ? f.template operator()<8, 8>() : f.template operator()<8, 1>();
}

HeadSlabs slabs_of(const HeadInput& in) {
  const Shape& s = in.x.shape();
  return {s[0], s[1] * s[2] * s[3], static_cast<int>(s[4] / pack_elements(in.x.dtype())),
          static_cast<int>(in.w.size(0))};
}

/// out (samples, n), or (n) where they are all added up: rows of `pitch` numbers, the first n of
/// which are taken.
void merge(const char* op, Stream stream, int64_t samples, int64_t slabs, int64_t n, int64_t pitch,
           GradientMode mode, const double* parts, Tensor& out) {
  if (samples * n == 0) return;
  dispatch_device_float(out.dtype(), op, [&]<class W>() {
    launch(op, stream, merge_shape(samples, n), head_slabs_merge<W>, static_cast<int>(slabs),
           static_cast<int>(n), pitch, mode == GradientMode::add, parts, out.data<W>());
  });
}

template <class T, class Loss>
void run_sums(const char* op, Stream stream, const HeadInput& in, const Loss& loss, Tensor& sums) {
  const HeadSlabs plan = slabs_of(in);
  if (plan.samples == 0) return;
  const int numbers = Loss::numbers(plan.n_out);
  Tensor parts = Tensor::empty({plan.samples, plan.slabs, numbers}, DType::f64, stream.device);
  dispatch_own(plan, [&]<int K, int G>() {
    launch(op, stream, plan.launch_shape(kClassSums), head_loss_sums_slabs<T, K, G, Loss>, plan,
           in.x.data<T>(), in.w.data<T>(), pointer_or_null<T>(in.bias), loss, numbers,
           parts.data<double>());
  });
  launch(op, stream, merge_shape(plan.samples, numbers), head_slabs_merge<double>,
         static_cast<int>(plan.slabs), numbers, int64_t{numbers}, false, parts.data<double>(),
         sums.data<double>());
}

template <class T, class Loss>
void run_backward(const char* op, Stream stream, const HeadInput& in, const Loss& loss,
                  HeadGradients& out) {
  const HeadSlabs plan = slabs_of(in);
  const int64_t n = in.w.numel(), pitch = n + plan.n_out;
  // At least one row, so that gradients of nothing are zero.
  const int64_t rows = std::max<int64_t>(int64_t{plan.samples} * plan.slabs, 1);
  Tensor parts = Tensor::empty({rows, pitch}, DType::f64, stream.device);
  if (plan.samples == 0) {
    parts.fill(0.0);
  } else {
    dispatch_own(plan, [&]<int K, int G>() {
      launch(op, stream, plan.launch_shape(4), head_loss_gradient_slabs<T, K, G, Loss>, plan,
             in.x.data<T>(), in.w.data<T>(), pointer_or_null<T>(in.bias), loss,
             out.dx.defined() ? out.dx.template data<T>() : nullptr, parts.data<double>());
    });
  }
  const double* const from = parts.data<double>();
  if (out.dw.defined()) merge(op, stream, 1, rows, n, pitch, out.dw_mode, from, out.dw);
  if (out.db.defined())
    merge(op, stream, 1, rows, plan.n_out, pitch, out.db_mode, from + n, out.db);
}

ClassWeights class_weights(const ClassLossAttributes& a, const HeadInput& in) {
  return {a.ce_weight, a.dice_weight, a.smooth, a.include_background ? 0 : 1, in.w.size(0)};
}

}  // namespace

bool head_loss_applies(const HeadInput& in) {
  const int64_t pack = pack_elements(in.x.dtype()), channels = in.x.size(-1);
  return in.w.size(0) <= kHeadOutputs && channels >= pack && channels % pack == 0 &&
         channels / pack <= kHeadLanes && aligned(in.x.raw()) && aligned(in.w.raw());
}

void head_data_loss_sums(Stream stream, const DataLossAttributes& attributes, const HeadInput& in,
                         const Tensor& target, const Tensor& region, Tensor& sums) {
  constexpr const char* kOp = "head_data_loss_sums";
  dispatch_device_float(in.x.dtype(), kOp, [&]<class T>() {
    using A = acc_t<T>;
    const DataTerms<A> terms{{attributes.kind, attributes.eps},
                             target.data<A>(),
                             pointer_or_null<uint8_t>(region),
                             nullptr,
                             nullptr,
                             in.x.size(0)};
    run_sums<T>(kOp, stream, in, terms, sums);
  });
}

void head_data_loss_backward(Stream stream, const DataLossAttributes& attributes,
                             const HeadInput& in, const Tensor& target, const Tensor& region,
                             const Tensor& sums, const Tensor& dloss, HeadGradients& out) {
  constexpr const char* kOp = "head_data_loss_backward";
  dispatch_device_float(in.x.dtype(), kOp, [&]<class T>() {
    using A = acc_t<T>;
    const DataTerms<A> terms{{attributes.kind, attributes.eps},
                             target.data<A>(),
                             pointer_or_null<uint8_t>(region),
                             sums.data<double>(),
                             dloss.data<A>(),
                             in.x.size(0)};
    run_backward<T>(kOp, stream, in, terms, out);
  });
}

void head_class_loss_sums(Stream stream, const HeadInput& in, const Tensor& labels,
                          const Tensor& region, Tensor& sums) {
  constexpr const char* kOp = "head_class_loss_sums";
  dispatch_device_float(in.x.dtype(), kOp, [&]<class T>() {
    using A = acc_t<T>;
    const ClassTerms<A> terms{class_weights({}, in),
                              labels.data<uint8_t>(),
                              pointer_or_null<uint8_t>(region),
                              nullptr,
                              nullptr,
                              in.x.size(0)};
    run_sums<T>(kOp, stream, in, terms, sums);
  });
}

void head_class_loss_backward(Stream stream, const ClassLossAttributes& attributes,
                              const HeadInput& in, const Tensor& labels, const Tensor& region,
                              const Tensor& sums, const Tensor& dloss, HeadGradients& out) {
  constexpr const char* kOp = "head_class_loss_backward";
  dispatch_device_float(in.x.dtype(), kOp, [&]<class T>() {
    using A = acc_t<T>;
    const ClassTerms<A> terms{
        class_weights(attributes, in), labels.data<uint8_t>(), pointer_or_null<uint8_t>(region),
        sums.data<double>(),           dloss.data<A>(),        in.x.size(0)};
    run_backward<T>(kOp, stream, in, terms, out);
  });
}

}  // namespace bora::kernels::cuda
