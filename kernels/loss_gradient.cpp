// SPDX-License-Identifier: Apache-2.0
// Losses of forward differences along D, H, W: the CPU's loops, line by line.
#include <algorithm>
#include <array>
#include <vector>

#include "kernels/loss.hpp"
#include "kernels/loss_checks.hpp"
#include "kernels/loss_gradient_generic.hpp"
#include "kernels/loss_gradient_terms.hpp"

namespace bora::kernels {
namespace {

/// Which numbers of a line count, one byte a number.
class LineMasks {
 public:
  LineMasks(const Tensor& region, const LossGrid& grid)
      : region_(pointer_or_null<uint8_t>(region)),
        channels_(grid.channels),
        cells_(grid.line / grid.channels),
        all_(region_ ? 0 : static_cast<size_t>(grid.line), 1) {}

  /// Of line number `line`; `scratch` (a line) is written where there are several channels.
  const uint8_t* of(int64_t line, std::vector<uint8_t>& scratch) const {
    if (!region_) return all_.data();
    const uint8_t* const cells = region_ + line * cells_;
    if (channels_ == 1) return cells;
    scratch.resize(static_cast<size_t>(cells_ * channels_));
    for (int64_t cell = 0; cell < cells_; ++cell)
      std::fill_n(scratch.data() + cell * channels_, channels_, cells[cell]);
    return scratch.data();
  }

 private:
  const uint8_t* region_;
  int64_t channels_, cells_;
  std::vector<uint8_t> all_;
};

/// Adds the differences between p[j], t[j] and p[j + step], t[j + step], j < n, to the 4 sums.
template <class T, bool kInverse>
void add_run(const T* p, const T* t, int64_t step, int64_t n, const uint8_t* mask,
             const uint8_t* next_mask, double* sums) {
  using A = acc_t<T>;
  constexpr int64_t kRun = 1024;  // short, since it is summed up in A
  for (int64_t begin = 0; begin < n; begin += kRun) {
    const int64_t end = std::min(n, begin + kRun);
    A sum_term(0), sum_ae(0), sum_a(0);
    int32_t count = 0;
#pragma omp simd reduction(+ : sum_term, sum_ae, sum_a, count)
    for (int64_t j = begin; j < end; ++j) {
      const bool counts = (mask[j] != 0) & (next_mask[j] != 0);
      const A dt = static_cast<A>(t[j + step]) - static_cast<A>(t[j]);
      const A dp = static_cast<A>(p[j + step]) - static_cast<A>(p[j]);
      const A a = magnitude(dt), e = magnitude(dp - dt);
      const A term = difference_term<kInverse>(e, a), ae = a * e;
      sum_term += counts ? term : A(0);  // chosen, not multiplied: may be NaN
      sum_ae += counts ? ae : A(0);
      sum_a += counts ? a : A(0);
      count += counts ? 1 : 0;
    }
    sums[0] += static_cast<double>(count);
    sums[1] += static_cast<double>(sum_term);
    sums[2] += static_cast<double>(sum_ae);
    sums[3] += static_cast<double>(sum_a);
  }
}

template <class T, bool kInverse>
void sums_cpu(const LossGrid& grid, const Tensor& prediction, const Tensor& target,
              const Tensor& region, Tensor& sums) {
  const T* const p = prediction.data<T>();
  const T* const t = target.data<T>();
  const LineMasks masks(region, grid);
  const int64_t n_planes = grid.samples * grid.depth;
  std::vector<std::array<double, kGradientSums>> planes(static_cast<size_t>(n_planes));
#pragma omp parallel
  {
    std::vector<uint8_t> scratch, next_scratch;
#pragma omp for schedule(static)
    for (int64_t plane = 0; plane < n_planes; ++plane) {
      auto& own = planes[static_cast<size_t>(plane)];
      own.fill(0.0);
      const bool deeper = plane % grid.depth + 1 < grid.depth;
      for (int64_t h = 0; h < grid.height; ++h) {
        const int64_t line = plane * grid.height + h, first = line * grid.line;
        const uint8_t* const mask = masks.of(line, scratch);
        const auto add = [&](int axis, int64_t next_line) {
          add_run<T, kInverse>(p + first, t + first, grid.step(axis), grid.line, mask,
                               masks.of(next_line, next_scratch), own.data() + 4 * axis);
        };
        if (deeper) add(0, line + grid.height);
        if (h + 1 < grid.height) add(1, line + 1);
        add_run<T, kInverse>(p + first, t + first, grid.channels, grid.line - grid.channels, mask,
                             mask + grid.channels, own.data() + 8);
      }
    }
  }
  double* const out = sums.data<double>();
  std::fill_n(out, grid.samples * kGradientSums, 0.0);
  for (int64_t plane = 0; plane < n_planes; ++plane)
    for (int k = 0; k < kGradientSums; ++k)
      out[plane / grid.depth * kGradientSums + k] +=
          planes[static_cast<size_t>(plane)][static_cast<size_t>(k)];
}

/// pull[j] = d(loss) / d(difference that begins at j), j < n.
template <class T, bool kInverse>
void pull_run(const T* p, const T* t, int64_t step, int64_t n, const uint8_t* mask,
              const uint8_t* next_mask, DifferenceWeight weight, acc_t<T>* pull) {
  using A = acc_t<T>;
  const A constant = static_cast<A>(weight.constant), slope = static_cast<A>(weight.slope);
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const bool counts = (mask[j] != 0) & (next_mask[j] != 0);
    const A dt = static_cast<A>(t[j + step]) - static_cast<A>(t[j]);
    const A e = static_cast<A>(p[j + step]) - static_cast<A>(p[j]) - dt;
    const A g = difference_pull<kInverse>(e, dt, constant, slope);
    pull[j] = counts ? g : A(0);
  }
}

template <class A>
void add_line(A* to, const A* from, int64_t n, A factor) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) to[j] += factor * from[j];
}

template <class T, bool kInverse>
void backward_cpu(const LossGrid& grid, GradientLossForm form, const Tensor& prediction,
                  const Tensor& target, const Tensor& region, const Tensor& sums, double dloss,
                  Tensor& dprediction) {
  using A = acc_t<T>;
  const T* const p = prediction.data<T>();
  const T* const t = target.data<T>();
  T* const out = dprediction.data<T>();
  const LineMasks masks(region, grid);
  const int64_t n_lines = grid.samples * grid.depth * grid.height, n = grid.line;
#pragma omp parallel
  {
    std::vector<uint8_t> scratch, other_scratch;
    std::vector<A> gradient(static_cast<size_t>(n)), pull(static_cast<size_t>(n));
#pragma omp for schedule(static)
    for (int64_t line = 0; line < n_lines; ++line) {
      const int64_t h = line % grid.height, plane = line / grid.height, d = plane % grid.depth;
      const double scale = dloss / (3.0 * static_cast<double>(grid.samples));
      const auto weight = [&](int axis) {
        const DifferenceWeight w =
            difference_weight(form, sums.data<double>() + (plane / grid.depth * 3 + axis) * 4);
        return DifferenceWeight{scale * w.constant, scale * w.slope};
      };
      std::fill(gradient.begin(), gradient.end(), A(0));
      const uint8_t* const mask = masks.of(line, scratch);
      const int64_t first = line * n;
      // + from the difference that ends in this line, - from the one that begins here.
      const auto between_lines = [&](int axis, int64_t lines_apart, bool has_before,
                                     bool has_after) {
        const int64_t step = grid.step(axis);
        if (has_before) {
          pull_run<T, kInverse>(p + first - step, t + first - step, step, n,
                                masks.of(line - lines_apart, other_scratch), mask, weight(axis),
                                pull.data());
          add_line(gradient.data(), pull.data(), n, A(1));
        }
        if (has_after) {
          pull_run<T, kInverse>(p + first, t + first, step, n, mask,
                                masks.of(line + lines_apart, other_scratch), weight(axis),
                                pull.data());
          add_line(gradient.data(), pull.data(), n, A(-1));
        }
      };
      between_lines(0, grid.height, d > 0, d + 1 < grid.depth);
      between_lines(1, 1, h > 0, h + 1 < grid.height);
      const int64_t within = n - grid.channels;
      pull_run<T, kInverse>(p + first, t + first, grid.channels, within, mask, mask + grid.channels,
                            weight(2), pull.data());
      add_line(gradient.data() + grid.channels, pull.data(), within, A(1));
      add_line(gradient.data(), pull.data(), within, A(-1));
      for (int64_t j = 0; j < n; ++j)
        out[first + j] = static_cast<T>(gradient[static_cast<size_t>(j)]);
    }
  }
}

void check_volumes(const char* op, const Tensor& prediction, const Tensor& target,
                   const Tensor& region, const Tensor& sums) {
  check_loss_pair(op, prediction, target, region);
  BORA_CHECK(prediction.rank() == 5, op, ": prediction is ", prediction.shape(),
             ", wanted (N, D, H, W, K)");
  check_loss_tensor(op, sums, {prediction.size(0), 3, 4}, DType::f64, "sums");
}

}  // namespace

void gradient_loss_sums(Stream stream, GradientLossForm form, const Tensor& prediction,
                        const Tensor& target, const Tensor& region, Tensor& sums) {
  constexpr const char* kOp = "gradient_loss_sums";
  check_volumes(kOp, prediction, target, region, sums);
  if (stream.device.type != DeviceType::cpu)
    return generic::gradient_loss_sums(stream, form, prediction, target, region, sums);
  const LossGrid grid(prediction.shape());
  if (prediction.numel() == 0) return sums.fill(0.0);
  dispatch_float(prediction.dtype(), kOp, [&]<class T>() {
    if (form == GradientLossForm::inverse)
      sums_cpu<T, true>(grid, prediction, target, region, sums);
    else
      sums_cpu<T, false>(grid, prediction, target, region, sums);
  });
}

void gradient_loss_backward(Stream stream, GradientLossForm form, const Tensor& prediction,
                            const Tensor& target, const Tensor& region, const Tensor& sums,
                            const Tensor& dloss, Tensor& dprediction) {
  constexpr const char* kOp = "gradient_loss_backward";
  check_volumes(kOp, prediction, target, region, sums);
  check_loss_tensor(kOp, dloss, {}, loss_type(prediction.dtype()), "dloss");
  check_loss_tensor(kOp, dprediction, prediction.shape(), prediction.dtype(), "dprediction");
  if (stream.device.type != DeviceType::cpu)
    return generic::gradient_loss_backward(stream, form, prediction, target, region, sums, dloss,
                                           dprediction);
  if (prediction.numel() == 0) return;
  const LossGrid grid(prediction.shape());
  dispatch_float(prediction.dtype(), kOp, [&]<class T>() {
    if (form == GradientLossForm::inverse)
      backward_cpu<T, true>(grid, form, prediction, target, region, sums, dloss.item(),
                            dprediction);
    else
      backward_cpu<T, false>(grid, form, prediction, target, region, sums, dloss.item(),
                             dprediction);
  });
}

}  // namespace bora::kernels
