// SPDX-License-Identifier: Apache-2.0
// Moments of channels: one read of x, joined in a fixed order.
#include "core/convert.hpp"
#include "kernels/cuda/norm.hpp"
#include "kernels/norm.hpp"
#include "kernels/norm_checks.hpp"
#include "kernels/norm_lanes.hpp"

namespace bora::kernels {
namespace {

/// Moments of rows [begin, end) of one sample to mean[channels], m2[channels].
template <class T>
void slab_moments(const T* x, const LanePlan& plan, int64_t begin, int64_t end, double* mean,
                  double* m2, LaneArrays<acc_t<T>>& arrays) {
  using A = acc_t<T>;
  const int64_t n_lanes = plan.lanes, n_channels = plan.channels;
  A* const shift = arrays[0];
  A* const s1 = arrays[1];
  A* const s2 = arrays[2];
  A* const wide = arrays[3];
  double before = 0.0;  // rows so far
  for (int64_t row = begin; row < end; row += plan.tile_rows) {
    const int64_t n_rows = std::min(plan.tile_rows, end - row);
    const T* const tile = x + row * n_channels;
    const int64_t n = n_rows * n_channels;
    const double rows = static_cast<double>(n_rows);
    if (row == begin) {  // the tile's own mean is the first shift
      std::fill_n(s1, n_lanes, A(0));
      for (int64_t i = 0; i < n; i += n_lanes) {
        const int64_t length = std::min(n_lanes, n - i);
        const A* const run = widen(tile + i, length, wide);
#pragma omp simd
        for (int64_t j = 0; j < length; ++j) s1[j] += run[j];
      }
      fold_lanes(s1, n_lanes, n_channels);
      const A inverse = A(1) / static_cast<A>(n_rows);
      for (int64_t c = 0; c < n_channels; ++c) shift[c] = s1[c] * inverse;
    } else {
      for (int64_t c = 0; c < n_channels; ++c) shift[c] = static_cast<A>(mean[c]);
    }
    spread_lanes(shift, n_lanes, n_channels);
    std::fill_n(s1, n_lanes, A(0));
    std::fill_n(s2, n_lanes, A(0));
    for (int64_t i = 0; i < n; i += n_lanes) {
      const int64_t length = std::min(n_lanes, n - i);
      const A* const run = widen(tile + i, length, wide);
#pragma omp simd
      for (int64_t j = 0; j < length; ++j) {
        const A d = run[j] - shift[j];
        s1[j] += d;
        s2[j] += d * d;
      }
    }
    fold_lanes(s1, n_lanes, n_channels);
    fold_lanes(s2, n_lanes, n_channels);
    const double part = rows / (before + rows), cross = before * part, inverse_rows = 1.0 / rows;
    for (int64_t c = 0; c < n_channels; ++c) {
      const double sum = static_cast<double>(s1[c]);
      const double tile_mean = static_cast<double>(shift[c]) + sum * inverse_rows;
      const double own = static_cast<double>(s2[c]) - sum * sum * inverse_rows;
      const double tile_m2 = own < 0.0 ? 0.0 : own;  // NaN stays
      const double delta = tile_mean - (row == begin ? 0.0 : mean[c]);
      mean[c] = (row == begin ? 0.0 : mean[c]) + delta * part;
      m2[c] = row == begin ? tile_m2 : m2[c] + tile_m2 + delta * delta * cross;
    }
    before += rows;
  }
}

/// Joins (count, mean[], m2[]) with another set of `rows` > 0 rows.
void join_channels(double count, double* mean, double* m2, double rows, const double* other_mean,
                   const double* other_m2, int64_t n_channels) {
  const double part = rows / (count + rows), cross = count * part;
  for (int64_t c = 0; c < n_channels; ++c) {
    const double delta = other_mean[c] - mean[c];
    mean[c] += delta * part;
    m2[c] += other_m2[c] + delta * delta * cross;
  }
}

template <class T>
void moments_cpu(const NormShape& shape, const Tensor& x, Tensor& moments) {
  const LanePlan plan(shape.rows, shape.channels);
  const int64_t n_channels = shape.channels, width = 1 + 2 * n_channels;
  const T* const data = x.data<T>();
  Tensor parts = Tensor::empty({shape.samples, plan.slabs, 2 * n_channels}, DType::f64);
  double* const partial = parts.data<double>();
  double* const out = moments.data<double>();
  if (shape.rows == 0) {
    std::fill_n(out, shape.samples * width, 0.0);
    return;
  }
  for_each_slab(shape.samples, plan, false, [&](int64_t n, int64_t slab) {
    LaneArrays<acc_t<T>> arrays(4, plan.lanes);
    double* const own = partial + (n * plan.slabs + slab) * 2 * n_channels;
    slab_moments(data + n * shape.rows * n_channels, plan, plan.slab_begin(slab),
                 plan.slab_end(slab), own, own + n_channels, arrays);
  });
  for (int64_t n = 0; n < shape.samples; ++n) {
    double* const row = out + n * width;
    double* const mean = row + 1;
    double* const m2 = mean + n_channels;
    const double* part = partial + n * plan.slabs * 2 * n_channels;
    double count = 0.0;
    for (int64_t slab = 0; slab < plan.slabs; ++slab, part += 2 * n_channels) {
      const auto rows = static_cast<double>(plan.slab_end(slab) - plan.slab_begin(slab));
      if (slab == 0)
        std::copy_n(part, 2 * n_channels, mean);
      else
        join_channels(count, mean, m2, rows, part, part + n_channels, n_channels);
      count += rows;
    }
    row[0] = count;
  }
}

}  // namespace

void norm_moments(Stream stream, const NormShape& shape, const Tensor& x, Tensor& moments) {
  check_norm_input("norm_moments", shape, x, "x");
  check_norm_tensor("norm_moments", moments, {shape.samples, 1 + 2 * shape.channels}, DType::f64,
                    "moments");
  if (stream.device.type != DeviceType::cpu)
    return BORA_IF_CUDA(cuda::norm_moments(stream, shape, x, moments));
  dispatch_float(x.dtype(), "norm_moments", [&]<class T>() { moments_cpu<T>(shape, x, moments); });
}

}  // namespace bora::kernels
