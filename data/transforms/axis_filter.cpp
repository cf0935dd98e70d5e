// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/axis_filter.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"

namespace bora::data {
namespace {

constexpr int64_t kTile = 16;    // lines along z that are filtered side by side
constexpr int64_t kBlock = 128;  // numbers whose sums stay in registers

AxisWeights table(int64_t n_in, int64_t n_out, int64_t width) {
  AxisWeights w{n_in, n_out, width, {}, {}};
  w.first.resize(static_cast<size_t>(n_out));
  w.weights.assign(static_cast<size_t>(n_out * width), 0.0f);
  return w;
}

/// Index i of (d c b a | a b c d | d c b a).
int64_t mirrored_index(int64_t i, int64_t n) {
  const int64_t period = 2 * n;
  i = ((i % period) + period) % period;
  return i < n ? i : period - 1 - i;
}

/// Rows of `row` numbers that lie one behind another: (n_in, row) -> (n_out, row).
void filter_rows(const float* in, float* out, int64_t row, const AxisWeights& w) {
  for (int64_t i = 0; i < w.n_out; ++i) {
    const float* weights = w.weights.data() + i * w.width;
    const float* source = in + w.first[static_cast<size_t>(i)] * row;
    float* to = out + i * row;
    int64_t j = 0;
    for (; j + kBlock <= row; j += kBlock) {
      float sum[kBlock] = {};
      for (int64_t k = 0; k < w.width; ++k)
        for (int64_t l = 0; l < kBlock; ++l) sum[l] += weights[k] * source[k * row + j + l];
      std::copy_n(sum, kBlock, to + j);
    }
    for (; j + kTile <= row; j += kTile) {
      float sum[kTile] = {};
      for (int64_t k = 0; k < w.width; ++k)
        for (int64_t l = 0; l < kTile; ++l) sum[l] += weights[k] * source[k * row + j + l];
      std::copy_n(sum, kTile, to + j);
    }
    for (; j < row; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < w.width; ++k) sum += weights[k] * source[k * row + j];
      to[j] = sum;
    }
  }
}

/// Along the last axis: kTile lines are turned to rows of kTile numbers, and back.
void filter_lines(const float* in, float* out, int64_t n_lines, const AxisWeights& w) {
  std::vector<float> rows(static_cast<size_t>(w.n_in * kTile));
  std::vector<float> filtered(static_cast<size_t>(w.n_out * kTile));
  for (int64_t line = 0; line < n_lines; line += kTile) {
    const int64_t n = std::min(kTile, n_lines - line);
    const float* from = in + line * w.n_in;
    for (int64_t z = 0; z < w.n_in; ++z)
      for (int64_t l = 0; l < n; ++l)
        rows[static_cast<size_t>(z * kTile + l)] = from[l * w.n_in + z];
    filter_rows(rows.data(), filtered.data(), kTile, w);
    float* to = out + line * w.n_out;
    for (int64_t l = 0; l < n; ++l)
      for (int64_t z = 0; z < w.n_out; ++z)
        to[l * w.n_out + z] = filtered[static_cast<size_t>(z * kTile + l)];
  }
}

int64_t coarse_cells(int64_t n, double share) {
  return std::max<int64_t>(1, std::llround(share * static_cast<double>(n)));
}

}  // namespace

AxisWeights gaussian_weights(int64_t n, double sigma) {
  BORA_CHECK(n > 0 && sigma > 0, "gaussian_weights: ", n, " cells, sigma ", sigma,
             ", wanted both above 0");
  const auto radius = static_cast<int64_t>(4 * sigma + 0.5);
  std::vector<double> bell(static_cast<size_t>(2 * radius + 1));
  double sum = 0;
  for (int64_t t = -radius; t <= radius; ++t) {
    const double x = static_cast<double>(t) / sigma;
    sum += bell[static_cast<size_t>(t + radius)] = std::exp(-0.5 * x * x);
  }
  const int64_t width = std::min(n, 2 * radius + 1);
  AxisWeights w = table(n, n, width);
  std::vector<double> row(static_cast<size_t>(width));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t first = std::clamp<int64_t>(i - radius, 0, n - width);
    w.first[static_cast<size_t>(i)] = first;
    std::fill(row.begin(), row.end(), 0.0);
    for (int64_t t = -radius; t <= radius; ++t)
      row[static_cast<size_t>(mirrored_index(i + t, n) - first)] +=
          bell[static_cast<size_t>(t + radius)] / sum;
    for (int64_t k = 0; k < width; ++k)
      w.weights[static_cast<size_t>(i * width + k)] =
          static_cast<float>(row[static_cast<size_t>(k)]);
  }
  return w;
}

AxisWeights mean_weights(int64_t n, int64_t n_coarse) {
  BORA_CHECK(n_coarse > 0 && n_coarse <= n, "mean_weights: ", n, " cells to ", n_coarse,
             ", wanted 1 to as many");
  const double size = static_cast<double>(n) / static_cast<double>(n_coarse);
  const int64_t width = std::min(n, static_cast<int64_t>(std::ceil(size)) + 1);
  AxisWeights w = table(n, n_coarse, width);
  for (int64_t i = 0; i < n_coarse; ++i) {
    const double begin = static_cast<double>(i) * size, end = begin + size;
    const int64_t first = std::clamp<int64_t>(static_cast<int64_t>(begin), 0, n - width);
    w.first[static_cast<size_t>(i)] = first;
    for (int64_t k = 0; k < width; ++k) {
      const auto cell = static_cast<double>(first + k);
      const double covered = std::min(end, cell + 1) - std::max(begin, cell);
      w.weights[static_cast<size_t>(i * width + k)] =
          static_cast<float>(std::max(0.0, covered) / size);
    }
  }
  return w;
}

AxisWeights linear_weights(int64_t n_coarse, int64_t n) {
  BORA_CHECK(n_coarse > 0 && n > 0, "linear_weights: ", n_coarse, " cells to ", n,
             ", wanted both above 0");
  const int64_t width = std::min<int64_t>(n_coarse, 2);
  AxisWeights w = table(n_coarse, n, width);
  for (int64_t i = 0; i < n; ++i) {
    const double at =
        (static_cast<double>(i) + 0.5) * static_cast<double>(n_coarse) / static_cast<double>(n) -
        0.5;
    const double x = std::clamp(at, 0.0, static_cast<double>(n_coarse - 1));
    const int64_t first = std::min(static_cast<int64_t>(x), n_coarse - width);
    const double t = x - static_cast<double>(first);
    w.first[static_cast<size_t>(i)] = first;
    float* weights = w.weights.data() + i * width;
    weights[0] = static_cast<float>(width == 1 ? 1 : 1 - t);
    if (width == 2) weights[1] = static_cast<float>(t);
  }
  return w;
}

Tensor filter_axis(const Tensor& in, int axis, const AxisWeights& w) {
  BORA_CHECK(in.defined() && in.rank() == 3 && in.dtype() == DType::f32 && axis >= 0 && axis < 3,
             "filter_axis: a tensor ", in.shape(), " ", in.dtype(), ", axis ", axis,
             "; wanted (X, Y, Z) f32 and 0 to 2");
  BORA_CHECK(in.size(axis) == w.n_in, "filter_axis: ", in.size(axis), " cells along axis ", axis,
             ", weights for ", w.n_in);
  Tensor out = Tensor::empty(in.shape().with(axis, w.n_out), DType::f32);
  if (out.numel() == 0) return out;
  const float* from = in.data<float>();
  float* to = out.data<float>();
  if (axis == 2) {
    filter_lines(from, to, in.size(0) * in.size(1), w);
    return out;
  }
  const int64_t row = axis == 0 ? in.size(1) * in.size(2) : in.size(2);
  const int64_t outer = axis == 0 ? 1 : in.size(0);
  for (int64_t o = 0; o < outer; ++o)
    filter_rows(from + o * w.n_in * row, to + o * w.n_out * row, row, w);
  return out;
}

Tensor gaussian_blur(const Tensor& in, double sigma) {
  Tensor out = in;
  for (int axis = 0; axis < 3; ++axis)
    if (in.size(axis) > 1) out = filter_axis(out, axis, gaussian_weights(in.size(axis), sigma));
  return out;
}

Tensor low_resolution(const Tensor& in, double share, const std::array<bool, 3>& along) {
  BORA_CHECK(share > 0 && share <= 1, "low_resolution: a share of ", share, " of the cells, ",
             "wanted above 0 and at most 1");
  Tensor out = in;
  const auto chosen = [&](int axis) {
    return along[static_cast<size_t>(axis)] && coarse_cells(in.size(axis), share) < in.size(axis);
  };
  for (int axis = 0; axis < 3; ++axis)
    if (chosen(axis))
      out = filter_axis(out, axis, mean_weights(in.size(axis), coarse_cells(in.size(axis), share)));
  for (int axis = 0; axis < 3; ++axis)
    if (chosen(axis)) out = filter_axis(out, axis, linear_weights(out.size(axis), in.size(axis)));
  return out;
}

}  // namespace bora::data
