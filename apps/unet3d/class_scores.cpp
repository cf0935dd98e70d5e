// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/class_scores.hpp"

#include <cmath>
#include <limits>

#include "core/error.hpp"

namespace bora::unet3d {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double ratio(int64_t a, int64_t b) {
  return b == 0 ? kNaN : static_cast<double>(a) / static_cast<double>(b);
}

/// Without the last axis.
Shape cells_of(const Shape& shape) {
  Shape out;
  for (int i = 0; i + 1 < shape.rank(); ++i) out = out.append(shape[i]);
  return out;
}

double of_empty(EmptyClass empty) {
  return empty == EmptyClass::one ? 1 : empty == EmptyClass::zero ? 0 : kNaN;
}

}  // namespace

void ClassCounts::add(const ClassCounts& other) {
  both += other.both;
  truth += other.truth;
  predicted += other.predicted;
}

EmptyClass empty_class_from(const std::string& name) {
  if (name == "skip") return EmptyClass::skip;
  if (name == "one") return EmptyClass::one;
  if (name == "zero") return EmptyClass::zero;
  throw UsageError("segmentation.empty_class '" + name + "': wanted skip, one or zero");
}

double dice(const ClassCounts& c, EmptyClass empty) {
  return c.is_empty() ? of_empty(empty) : ratio(2 * c.both, c.truth + c.predicted);
}

double iou(const ClassCounts& c, EmptyClass empty) {
  return c.is_empty() ? of_empty(empty) : ratio(c.both, c.truth + c.predicted - c.both);
}

double precision(const ClassCounts& c) { return ratio(c.both, c.predicted); }
double recall(const ClassCounts& c) { return ratio(c.both, c.truth); }

double mean_of_numbers(const std::vector<double>& values) {
  double sum = 0;
  int64_t n = 0;
  for (const double v : values)
    if (!std::isnan(v)) sum += v, ++n;
  return n == 0 ? kNaN : sum / static_cast<double>(n);
}

void count_classes(const Tensor& truth, const Tensor& prediction, const Tensor& region,
                   const std::string& what, std::vector<ClassCounts>& counts) {
  const int64_t n = truth.numel();
  BORA_CHECK(truth.dtype() == DType::u8 && prediction.dtype() == DType::u8 &&
                 prediction.numel() == n && (!region.defined() || region.numel() == n),
             "count_classes: truth ", truth.shape(), " ", truth.dtype(), ", prediction ",
             prediction.shape(), " ", prediction.dtype(), ", wanted u8 with as many cells");
  const uint8_t* t = truth.data<uint8_t>();
  const uint8_t* p = prediction.data<uint8_t>();
  const uint8_t* r = region.defined() ? region.data<uint8_t>() : nullptr;
  for (int64_t i = 0; i < n; ++i) {
    if (r && r[i] == 0) continue;
    BORA_CHECK(t[i] < counts.size() && p[i] < counts.size(), what, ": class ",
               static_cast<int>(t[i] < counts.size() ? p[i] : t[i]), ", wanted 0 to ",
               counts.size() - 1);
    ++counts[t[i]].truth;
    ++counts[p[i]].predicted;
    counts[t[i]].both += t[i] == p[i];
  }
}

Tensor largest_class(const Tensor& logits, const std::string& what) {
  BORA_CHECK(logits.defined() && logits.rank() >= 2 && logits.dtype() == DType::f32 &&
                 logits.size(-1) >= 1 && logits.size(-1) <= 256,
             "largest_class: logits ", logits.shape(), " ", logits.dtype(),
             ", wanted (..., K) f32 with K of 1 to 256");
  const int64_t classes = logits.size(-1);
  Tensor out = Tensor::empty(cells_of(logits.shape()), DType::u8);
  const float* y = logits.data<float>();
  uint8_t* to = out.data<uint8_t>();
  for (int64_t i = 0; i < out.numel(); ++i, y += classes) {
    int64_t best = 0;
    bool good = !std::isnan(y[0]);
    for (int64_t k = 1; k < classes; ++k) {
      good = good && !std::isnan(y[k]);
      if (y[k] > y[best]) best = k;
    }
    BORA_CHECK(good, what, ": the network's output is NaN at cell ", i);
    to[i] = static_cast<uint8_t>(best);
  }
  return out;
}

}  // namespace bora::unet3d
