// SPDX-License-Identifier: Apache-2.0
// Argument checks and shapes shared by kernels/loss_*.cpp.
#pragma once

#include <type_traits>

#include "core/tensor.hpp"
#include "kernels/loss.hpp"

namespace bora::kernels {

/// (N, ..., K) as N samples of `lines` lines of `width` cells of `channels` numbers.
struct LossShape {
  int64_t samples = 0, lines = 1, width = 1, channels = 0;

  explicit LossShape(const Shape& s) : samples(s.at(0)), channels(s.at(-1)) {
    for (int axis = 1; axis + 2 < s.rank(); ++axis) lines *= s[axis];
    if (s.rank() > 2) width = s[s.rank() - 2];
  }
  int64_t cells() const { return lines * width; }
};

inline DType loss_type(DType input) { return input == DType::f64 ? DType::f64 : DType::f32; }

inline void check_loss_tensor(const char* op, const Tensor& t, const Shape& wanted, DType type,
                              const char* name) {
  BORA_CHECK(t.defined() && t.shape() == wanted && t.dtype() == type, op, ": ", name, " is ",
             t.shape(), " ", t.dtype(), t.defined() ? "" : " (undefined)", ", wanted ", wanted, " ",
             type);
}

/// x without its last axis.
inline Shape cells_of(const Shape& x) {
  Shape cells;
  for (int axis = 0; axis + 1 < x.rank(); ++axis) cells = cells.append(x[axis]);
  return cells;
}

inline void check_loss_values(const char* op, const Tensor& x, const char* name) {
  BORA_CHECK(x.defined() && x.rank() >= 2 && is_float(x.dtype()), op, ": ", name, " is ", x.shape(),
             " ", x.dtype(), ", wanted (N, ..., K) of a floating type");
  BORA_CHECK(x.size(-1) > 0, op, ": ", name, " is ", x.shape(), ", wanted at least one channel");
}

/// region, labels: u8 of the cells of x, on its device.
inline void check_loss_cells(const char* op, const Tensor& x, const Tensor& cells,
                             const char* name) {
  const Shape wanted = cells_of(x.shape());
  BORA_CHECK(cells.shape() == wanted && cells.dtype() == DType::u8 && cells.device() == x.device(),
             op, ": ", name, " is ", cells.shape(), " ", cells.dtype(), " on ", cells.device(),
             ", wanted ", wanted, " u8 on ", x.device());
}

inline void check_loss_pair(const char* op, const Tensor& prediction, const Tensor& target,
                            const Tensor& region) {
  check_loss_values(op, prediction, "prediction");
  BORA_CHECK(target.defined() && target.shape() == prediction.shape() &&
                 target.dtype() == prediction.dtype() && target.device() == prediction.device(),
             op, ": target is ", target.shape(), " ", target.dtype(), " on ", target.device(),
             ", prediction is ", prediction.shape(), " ", prediction.dtype(), " on ",
             prediction.device());
  if (region.defined()) check_loss_cells(op, prediction, region, "region");
}

inline void check_loss_classes(const char* op, const Tensor& logits, const ClassCells& cells) {
  check_loss_values(op, logits, "logits");
  BORA_CHECK(cells.labels.defined(), op, ": labels are undefined");
  check_loss_cells(op, logits, cells.labels, "labels");
  if (cells.region.defined()) check_loss_cells(op, logits, cells.region, "region");
  const Tensor& w = cells.weights;
  if (!w.defined()) return;
  const Shape wanted = cells_of(logits.shape());
  const DType type = loss_type(logits.dtype());
  BORA_CHECK(w.shape() == wanted && w.dtype() == type && w.device() == logits.device(), op,
             ": weights are ", w.shape(), " ", w.dtype(), " on ", w.device(), ", wanted ", wanted,
             " ", type, " on ", logits.device());
}

/// The first class that Dice scores; checks the attributes.
inline int64_t first_scored_class(const char* op, const ClassLossAttributes& a, int64_t classes) {
  const int64_t first = a.include_background ? 0 : 1;
  BORA_CHECK(a.dice_weight == 0.0 || (classes > first && a.smooth > 0.0), op, ": ", classes,
             " classes, background ", a.include_background ? "counted" : "left out", ", smooth ",
             a.smooth, "; wanted a class to score and smooth > 0");
  return first;
}

template <class T>
const T* pointer_or_null(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

/// f<A>() with the acc type of a loss tensor.
template <class F>
void dispatch_loss(const char* op, const Tensor& loss, F&& f) {
  check_loss_tensor(op, loss, {}, loss.dtype() == DType::f64 ? DType::f64 : DType::f32, "loss");
  if (loss.dtype() == DType::f64)
    f.template operator()<double>();
  else
    f.template operator()<float>();
}

}  // namespace bora::kernels
