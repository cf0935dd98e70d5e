// SPDX-License-Identifier: Apache-2.0
#include "kernels/loss_gradient_generic.hpp"

#include "kernels/for_each.hpp"
#include "kernels/loss_checks.hpp"
#include "kernels/loss_gradient_terms.hpp"
#include "kernels/reduce.hpp"

namespace bora::kernels {
namespace {

/// The pair of elements `first` and `first + step`, where both are in the grid.
template <class T>
struct Differences {
  using A = acc_t<T>;
  const T* prediction;
  const T* target;
  const uint8_t* region;
  int64_t channels;

  BORA_HD bool inside(int64_t i) const {
    return !region || region[channels == 1 ? i : i / channels] != 0;
  }
  BORA_HD bool counts(int64_t first, int64_t step) const {
    return inside(first) && inside(first + step);
  }
  BORA_HD A of_target(int64_t first, int64_t step) const {
    return load(target[first + step]) - load(target[first]);
  }
  BORA_HD A of_prediction(int64_t first, int64_t step) const {
    return load(prediction[first + step]) - load(prediction[first]);
  }
};

/// First stage: an outer index is a plane (n, d), a row is h, a column is a number of the line.
template <class T>
struct PlaneSums {
  using A = acc_t<T>;
  using Element = double;
  static constexpr int kWidth = kGradientSums;
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  using State = Lanes<Element, kWidth>;
  Differences<T> difference;
  LossGrid grid;
  GradientLossForm form;
  double* planes;  // (N, D, line, kGradientSums)

  BORA_HD State identity() const {
    State s;
    for (int k = 0; k < kWidth; ++k) s.v[k] = 0.0;
    return s;
  }
  BORA_HD void add_axis(State& s, int axis, int64_t i, bool exists) const {
    if (!exists) return;
    const int64_t step = grid.step(axis);
    if (!difference.counts(i, step)) return;
    const A dt = difference.of_target(i, step);
    const A a = magnitude(dt), e = magnitude(difference.of_prediction(i, step) - dt);
    const A term = form == GradientLossForm::inverse ? difference_term<true>(e, a) : e;
    double* const v = s.v + axis * 4;
    v[0] += 1.0;
    v[1] += static_cast<double>(term);
    v[2] += static_cast<double>(a) * static_cast<double>(e);
    v[3] += static_cast<double>(a);
  }
  BORA_HD void add(State& s, int64_t plane, int64_t i, int64_t column) const {
    const int64_t plane_first = plane * grid.height * grid.line;
    add_axis(s, 0, i, plane % grid.depth + 1 < grid.depth);
    add_axis(s, 1, i, i - plane_first < (grid.height - 1) * grid.line);
    add_axis(s, 2, i, column + grid.channels < grid.line);
  }
  BORA_HD void merge(State& a, const State& b) const {
    for (int k = 0; k < kWidth; ++k) a.v[k] += b.v[k];
  }
  BORA_HD void store(int64_t plane, int64_t column, const State& s) const {
    double* const out = planes + (plane * grid.line + column) * kGradientSums;
    for (int k = 0; k < kWidth; ++k) out[k] = s.v[k];
  }
};

/// Second stage: rows are a sample's planes and columns, the numbers stand side by side.
struct SumRows {
  using Element = double;
  static constexpr int kWidth = 1;
  using State = Lanes<Element, kWidth>;
  const double* in;
  double* out;
  int64_t columns;

  BORA_HD State identity() const { return {{0}}; }
  BORA_HD void add(State& s, int64_t, int64_t offset, int64_t) const { s.v[0] += in[offset]; }
  BORA_HD void merge(State& a, const State& b) const { a.v[0] += b.v[0]; }
  BORA_HD void store(int64_t outer, int64_t column, const State& s) const {
    out[outer * columns + column] = s.v[0];
  }
};

/// Element i gets + from the difference that ends there, - from the one that begins there.
template <class T>
struct GatherGradient {
  using A = acc_t<T>;
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  struct Line {
    int64_t first;
    bool before_d, after_d, before_h, after_h;  // is there a neighbour?
    A constant[3], slope[3];
  };
  Differences<T> difference;
  LossGrid grid;
  GradientLossForm form;
  const double* sums;
  const A* dloss;
  T* out;

  BORA_HD Line cell(const VolumeIndex& v) const {
    Line l;
    l.first = ((v.n * grid.depth + v.d) * grid.height + v.h) * grid.line;
    l.before_d = v.d > 0;
    l.after_d = v.d + 1 < grid.depth;
    l.before_h = v.h > 0;
    l.after_h = v.h + 1 < grid.height;
    const double scale = static_cast<double>(*dloss) / (3.0 * static_cast<double>(grid.samples));
    for (int axis = 0; axis < 3; ++axis) {
      const DifferenceWeight w = difference_weight(form, sums + (v.n * 3 + axis) * 4);
      l.constant[axis] = static_cast<A>(scale * w.constant);
      l.slope[axis] = static_cast<A>(scale * w.slope);
    }
    return l;
  }
  /// d(loss) / d(difference that begins at i).
  BORA_HD A pull(const Line& l, int axis, int64_t i) const {
    const int64_t step = grid.step(axis);
    if (!difference.counts(i, step)) return A(0);
    const A dt = difference.of_target(i, step), e = difference.of_prediction(i, step) - dt;
    return form == GradientLossForm::inverse
               ? difference_pull<true>(e, dt, l.constant[axis], l.slope[axis])
               : difference_pull<false>(e, dt, l.constant[axis], l.slope[axis]);
  }
  BORA_HD void operator()(const Line& l, int64_t c) const {
    const int64_t i = l.first + c;
    A g(0);
    if (l.before_d) g += pull(l, 0, i - grid.step(0));
    if (l.after_d) g -= pull(l, 0, i);
    if (l.before_h) g += pull(l, 1, i - grid.step(1));
    if (l.after_h) g -= pull(l, 1, i);
    if (c >= grid.channels) g += pull(l, 2, i - grid.channels);
    if (c + grid.channels < grid.line) g -= pull(l, 2, i);
    out[i] = static_cast<T>(g);
  }
};

template <class A>
struct LossOfSums {
  const double* sums;
  A* loss;
  int64_t samples;
  GradientLossForm form;

  BORA_HD void operator()(int64_t) const {
    double total = 0.0;
    for (int64_t i = 0; i < samples * 3; ++i) {
      const double* const s = sums + i * 4;
      const DifferenceWeight w = difference_weight(form, s);
      total += w.constant * s[1] + w.slope * s[2];
    }
    *loss = static_cast<A>(samples > 0 ? total / (3.0 * static_cast<double>(samples)) : 0.0);
  }
};

}  // namespace

namespace generic {

void gradient_loss_sums(Stream stream, GradientLossForm form, const Tensor& prediction,
                        const Tensor& target, const Tensor& region, Tensor& sums) {
  const LossGrid grid(prediction.shape());
  Tensor planes = Tensor::empty({grid.samples, grid.depth, grid.line, kGradientSums}, DType::f64,
                                stream.device);
  dispatch_float(prediction.dtype(), "gradient_loss_sums", [&]<class T>() {
    reduce_columns(stream, grid.samples * grid.depth, grid.height, grid.line,
                   PlaneSums<T>{{prediction.data<T>(), target.data<T>(),
                                 pointer_or_null<uint8_t>(region), grid.channels},
                                grid,
                                form,
                                planes.data<double>()});
  });
  reduce_columns(stream, grid.samples, grid.depth * grid.line, kGradientSums,
                 SumRows{planes.data<double>(), sums.data<double>(), kGradientSums});
}

void gradient_loss_backward(Stream stream, GradientLossForm form, const Tensor& prediction,
                            const Tensor& target, const Tensor& region, const Tensor& sums,
                            const Tensor& dloss, Tensor& dprediction) {
  const LossGrid grid(prediction.shape());
  dispatch_float(prediction.dtype(), "gradient_loss_backward", [&]<class T>() {
    for_each_cell(stream, grid.samples, {grid.depth, grid.height, 1}, grid.line,
                  GatherGradient<T>{{prediction.data<T>(), target.data<T>(),
                                     pointer_or_null<uint8_t>(region), grid.channels},
                                    grid,
                                    form,
                                    sums.data<double>(),
                                    dloss.data<acc_t<T>>(),
                                    dprediction.data<T>()});
  });
}

}  // namespace generic

void gradient_loss_value(Stream stream, GradientLossForm form, const Tensor& sums, Tensor& loss) {
  constexpr const char* kOp = "gradient_loss_value";
  BORA_CHECK(sums.defined() && sums.rank() == 3, kOp, ": sums is ", sums.shape(),
             ", wanted (N, 3, 4)");
  check_loss_tensor(kOp, sums, {sums.size(0), 3, 4}, DType::f64, "sums");
  dispatch_loss(kOp, loss, [&]<class A>() {
    for_each(stream, 1, LossOfSums<A>{sums.data<double>(), loss.data<A>(), sums.size(0), form});
  });
}

}  // namespace bora::kernels
