// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy and soft Dice from one set of sums.
#include <cmath>

#include "kernels/for_each.hpp"
#include "kernels/loss.hpp"
#include "kernels/loss_checks.hpp"
#include "kernels/loss_terms.hpp"
#include "kernels/reduce.hpp"

namespace bora::kernels {
namespace {

/// ClassCells as kernels see them.
template <class A>
struct CellPointers {
  const uint8_t* labels;
  const uint8_t* region;
  const A* weights;

  /// 0: the cell does not count.
  BORA_HD A weight(int64_t cell) const {
    if (region && region[cell] == 0) return A(0);
    return weights ? weights[cell] : A(1);
  }
  /// Of a cell that counts.  Without weights labels show in the counts.
  BORA_HD bool is_sound(int64_t cell, int64_t classes) const {
    if (!weights) return true;
    const A w = weights[cell];
    return w >= A(0) && w - w == A(0) && labels[cell] < classes;  // w - w: NaN for infinity
  }
};

template <class A>
CellPointers<A> cell_pointers(const ClassCells& cells) {
  return {cells.labels.data<uint8_t>(), pointer_or_null<uint8_t>(cells.region),
          pointer_or_null<A>(cells.weights)};
}

/// One cell: the largest logit m and log sum exp(logit - m).  Both are kept, since their sum would
/// lose the second where logits are large.
template <class T>
struct Normalise {
  using A = acc_t<T>;
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  const T* logits;
  A* out;
  int64_t classes;

  BORA_HD void operator()(int64_t cell) const {
    const T* const x = logits + cell * classes;
    A largest = load(x[0]);
    for (int64_t k = 1; k < classes; ++k) largest = load(x[k]) > largest ? load(x[k]) : largest;
    A total(0);
    for (int64_t k = 0; k < classes; ++k) total += ::exp(load(x[k]) - largest);
    out[2 * cell] = largest;
    out[2 * cell + 1] = ::log(total);
  }
};

/// Rows are cells, columns classes.
template <class T>
struct SumClasses {
  using A = acc_t<T>;
  using Element = double;
  static constexpr int kWidth = kClassSums;
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  using State = Lanes<Element, kWidth>;
  const T* logits;
  CellPointers<A> cells;
  const A* normaliser;
  double* sums;
  int64_t classes;

  BORA_HD State identity() const { return {{0, 0, 0, 0, 0}}; }
  BORA_HD void add(State& s, int64_t, int64_t offset, int64_t column) const {
    const int64_t cell = (offset - column) / classes;
    const auto w = static_cast<double>(cells.weight(cell));
    if (w == 0.0) return;
    const A log_p =
        class_log_probability(load(logits[offset]), normaliser[2 * cell], normaliser[2 * cell + 1]);
    const auto p = w * static_cast<double>(::exp(log_p));
    s.v[kProbability] += p;
    s.v[kCells] += cells.is_sound(cell, classes) ? w : NAN;
    if (cells.labels[cell] != column) return;
    s.v[kIntersection] += p;
    s.v[kLabels] += w;
    s.v[kSurprise] -= w * static_cast<double>(log_p);
  }
  BORA_HD void merge(State& a, const State& b) const {
    for (int k = 0; k < kWidth; ++k) a.v[k] += b.v[k];
  }
  BORA_HD void store(int64_t sample, int64_t column, const State& s) const {
    double* const out = sums + (sample * classes + column) * kClassSums;
    for (int k = 0; k < kWidth; ++k) out[k] = s.v[k];
  }
};

template <class A>
struct ClassLoss {
  const double* sums;
  A* loss;
  int64_t samples, classes, first_class;
  double ce_weight, dice_weight, smooth;
  CellWeights weights;

  BORA_HD void operator()(int64_t) const {
    double total = 0.0;
    for (int64_t n = 0; n < samples; ++n) {
      const double* const s = sums + n * classes * kClassSums;
      const double cells = s[kCells];
      double surprise = 0.0, labelled = 0.0, dice = 0.0;
      for (int64_t k = 0; k < classes; ++k) {
        const double* const c = s + k * kClassSums;
        surprise += c[kSurprise];
        labelled += c[kLabels];
        if (k >= first_class)
          dice += (2.0 * c[kIntersection] + smooth) / (c[kProbability] + c[kLabels] + smooth);
      }
      if (cells > 0.0) total += ce_weight * surprise / cells;
      // An empty sample scores 1 in each class: 0 up to rounding; exactly 0 instead.
      if (cells > 0.0 && dice_weight != 0.0)
        total += dice_weight * (1.0 - dice / static_cast<double>(classes - first_class));
      // A label that is no class; weighted sums are NaN then (and rounded: not equal).
      if (weights == CellWeights::none && labelled != cells) total += NAN;
      if (!(cells >= 0.0)) total += NAN;
    }
    *loss = static_cast<A>(samples > 0 ? total / static_cast<double>(samples) : 0.0);
  }
};

/// One cell: dlogit_j = w (p_j (g_j - sum_k g_k p_k) + ce (p_j - t_j)), g_k = d(Dice part) /
/// d(w p_k).
template <class T>
struct ClassGradient {
  using A = acc_t<T>;
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  const T* logits;
  CellPointers<A> cells;
  const A* normaliser;
  const double* sums;
  const A* dloss;
  T* out;
  int64_t samples, sample_cells, classes;
  ClassWeights weights;

  BORA_HD A probability(int64_t cell, int64_t k) const {
    return ::exp(class_log_probability(load(logits[cell * classes + k]), normaliser[2 * cell],
                                       normaliser[2 * cell + 1]));
  }
  BORA_HD A dice_slope(const double* sample_sums, int64_t k, bool labelled) const {
    return static_cast<A>(weights.dice_slope(sample_sums + k * kClassSums, k, labelled));
  }
  BORA_HD void operator()(int64_t cell) const {
    T* const dx = out + cell * classes;
    const A w = cells.weight(cell);
    if (w == A(0)) {
      for (int64_t k = 0; k < classes; ++k) dx[k] = static_cast<T>(0.0f);
      return;
    }
    const double* const s = sums + cell / sample_cells * classes * kClassSums;
    const int64_t label = cells.labels[cell];
    A mean(0);
    for (int64_t k = 0; k < classes; ++k)
      mean += dice_slope(s, k, k == label) * probability(cell, k);
    const A scale = w * static_cast<A>(static_cast<double>(*dloss) / static_cast<double>(samples));
    const A ce = static_cast<A>(weights.ce / s[kCells]);
    for (int64_t k = 0; k < classes; ++k) {
      const A p = probability(cell, k);
      const A g = class_logit_gradient(p, dice_slope(s, k, k == label), mean, ce, k == label);
      dx[k] = static_cast<T>(scale * g);
    }
  }
};

}  // namespace

void class_loss_sums(Stream stream, const Tensor& logits, const ClassCells& cells,
                     Tensor& normaliser, Tensor& sums) {
  constexpr const char* kOp = "class_loss_sums";
  check_loss_classes(kOp, logits, cells);
  const LossShape s(logits.shape());
  check_loss_tensor(kOp, normaliser, cells_of(logits.shape()).append(2), loss_type(logits.dtype()),
                    "normaliser");
  check_loss_tensor(kOp, sums, {s.samples, s.channels, kClassSums}, DType::f64, "sums");
  dispatch_float(logits.dtype(), kOp, [&]<class T>() {
    using A = acc_t<T>;
    for_each(stream, s.samples * s.cells(),
             Normalise<T>{logits.data<T>(), normaliser.data<A>(), s.channels});
    reduce_columns(stream, s.samples, s.cells(), s.channels,
                   SumClasses<T>{logits.data<T>(), cell_pointers<A>(cells), normaliser.data<A>(),
                                 sums.data<double>(), s.channels});
  });
}

void class_loss_value(Stream stream, const ClassLossAttributes& attributes, const Tensor& sums,
                      Tensor& loss, CellWeights weights) {
  constexpr const char* kOp = "class_loss_value";
  BORA_CHECK(sums.defined() && sums.rank() == 3, kOp, ": sums is ", sums.shape(),
             ", wanted (N, K, 5)");
  check_loss_tensor(kOp, sums, {sums.size(0), sums.size(1), kClassSums}, DType::f64, "sums");
  const int64_t first = first_scored_class(kOp, attributes, sums.size(1));
  dispatch_loss(kOp, loss, [&]<class A>() {
    for_each(
        stream, 1,
        ClassLoss<A>{sums.data<double>(), loss.data<A>(), sums.size(0), sums.size(1), first,
                     attributes.ce_weight, attributes.dice_weight, attributes.smooth, weights});
  });
}

void class_loss_backward(Stream stream, const ClassLossAttributes& attributes, const Tensor& logits,
                         const ClassCells& cells, const Tensor& normaliser, const Tensor& sums,
                         const Tensor& dloss, Tensor& dlogits) {
  constexpr const char* kOp = "class_loss_backward";
  check_loss_classes(kOp, logits, cells);
  const LossShape s(logits.shape());
  check_loss_tensor(kOp, sums, {s.samples, s.channels, kClassSums}, DType::f64, "sums");
  check_loss_tensor(kOp, dloss, {}, loss_type(logits.dtype()), "dloss");
  check_loss_tensor(kOp, dlogits, logits.shape(), logits.dtype(), "dlogits");
  const int64_t first = first_scored_class(kOp, attributes, s.channels);
  dispatch_float(logits.dtype(), kOp, [&]<class T>() {
    using A = acc_t<T>;
    for_each(stream, s.samples * s.cells(),
             ClassGradient<T>{logits.data<T>(), cell_pointers<A>(cells), normaliser.data<A>(),
                              sums.data<double>(), dloss.data<A>(), dlogits.data<T>(), s.samples,
                              s.cells(), s.channels,
                              ClassWeights{attributes.ce_weight, attributes.dice_weight,
                                           attributes.smooth, first, s.channels}});
  });
}

}  // namespace bora::kernels
