// SPDX-License-Identifier: Apache-2.0
#include "data/value_summary.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "data/packed_text.hpp"

namespace bora::data {

namespace {

constexpr int kBits = 21;  // sign, 8 of exponent, 12 of mantissa
constexpr size_t kBins = size_t{1} << kBits;

/// Bins ascend with the values: negative numbers' bits are turned over.  What is beyond the range
/// of f32 counts as its largest value.
size_t bin_of(double value) {
  constexpr double kMost = std::numeric_limits<float>::max();
  const float nearest = static_cast<float>(std::clamp(value, -kMost, kMost));
  const uint32_t bits = std::bit_cast<uint32_t>(nearest);
  const uint32_t key = bits >> 31 ? ~bits : bits | 0x80000000u;
  return key >> (32 - kBits);
}

/// The values of a bin that are nearest to and farthest from 0.
struct Edges {
  double near, far;
};
Edges edges_of(size_t bin) {
  const uint32_t low = static_cast<uint32_t>(bin) << (32 - kBits);
  const uint32_t high = low | ((1u << (32 - kBits)) - 1);
  const auto value = [](uint32_t key) {
    return static_cast<double>(std::bit_cast<float>(key >> 31 ? key & 0x7fffffffu : ~key));
  };
  const double a = value(low), b = value(high);
  return std::abs(a) < std::abs(b) ? Edges{a, b} : Edges{b, a};
}

template <class T>
int64_t count_equal(const T* values, int64_t i, int64_t n, const uint8_t* region) {
  int64_t run = 1;
  while (i + run < n && values[i + run] == values[i] && (!region || region[i + run] == 1)) ++run;
  return run;
}

}  // namespace

void ValueSummary::add(const Tensor& values, const Tensor& region) {
  BORA_CHECK(values.defined() && (values.dtype() == DType::f32 || values.dtype() == DType::f64),
             "ValueSummary: values of type ", values.defined() ? values.dtype() : DType::u8,
             ", wanted f32 or f64");
  BORA_CHECK(!region.defined() || region.numel() == values.numel(),
             "ValueSummary: ", values.numel(), " values and a region of ",
             region.defined() ? region.numel() : 0);
  if (bins_.empty()) bins_.assign(kBins, 0);
  const uint8_t* r = region.defined() ? region.data<uint8_t>() : nullptr;
  const int64_t total = values.numel();
  double sum = 0;
  int64_t n = 0;
  const auto pass = [&](const auto* v) {
    for (int64_t i = 0; i < total;) {
      if (r && r[i] != 1) {
        ++i;
        continue;
      }
      const int64_t run = count_equal(v, i, total, r);       // fields have long runs of one value
      const double value = static_cast<double>(v[i]) + 0.0;  // -0 is 0 like any other
      i += run;
      if (std::isnan(value)) {
        n_nan_ += run;
        continue;
      }
      if (std::isinf(value)) {
        n_infinite_ += run;
        continue;
      }
      if (moments_.n == 0 && n == 0) min_ = max_ = value;
      min_ = std::min(min_, value);
      max_ = std::max(max_, value);
      whole_ = whole_ && value == std::floor(value);
      n += run;
      sum += value * static_cast<double>(run);
      bins_[bin_of(value)] += run;
      if (!many_) distinct_[value] += run;
      if (distinct_.size() > kMostDistinct) {
        many_ = true;
        distinct_.clear();
      }
    }
    if (n == 0) return;
    Moments m{n, sum / static_cast<double>(n), 0};
    for (int64_t i = 0; i < total; ++i) {
      if ((r && r[i] != 1) || !std::isfinite(v[i])) continue;
      const double d = static_cast<double>(v[i]) - m.mean;
      m.m2 += d * d;
    }
    moments_ = moments_.merged(m);
  };
  if (values.dtype() == DType::f32)
    pass(values.data<float>());
  else
    pass(values.data<double>());
}

void ValueSummary::merge(const ValueSummary& other) {
  if (other.n() > 0) {
    min_ = n() > 0 ? std::min(min_, other.min_) : other.min_;
    max_ = n() > 0 ? std::max(max_, other.max_) : other.max_;
  }
  n_nan_ += other.n_nan_;
  n_infinite_ += other.n_infinite_;
  whole_ = whole_ && other.whole_;
  moments_ = moments_.merged(other.moments_);
  many_ = many_ || other.many_;
  for (const auto& [value, count] : other.distinct_) distinct_[value] += count;
  if (many_ || distinct_.size() > kMostDistinct) {
    many_ = true;
    distinct_.clear();
  }
  if (bins_.empty()) bins_.assign(kBins, 0);
  for (size_t i = 0; i < other.bins_.size(); ++i) bins_[i] += other.bins_[i];
}

void ValueSummary::reduce(Collective& ranks) {
  TextPacker mine;
  for (const int64_t v : {n_nan_, n_infinite_, int64_t{whole_}, int64_t{many_}, moments_.n})
    mine.add(v);
  for (const double v : {min_, max_, moments_.mean, moments_.m2}) mine.add(v);
  for (const auto& [value, count] : distinct_) {
    mine.add(value);
    mine.add(count);
  }
  Tensor bins = Tensor::zeros(Shape{static_cast<int64_t>(kBins)}, DType::i64);
  std::copy(bins_.begin(), bins_.end(), bins.data<int64_t>());
  ranks.control().all_reduce(bins, ReduceOp::sum, "counts of values");
  ValueSummary all;
  for (const std::string& text : ranks.all_gather_text(mine.text(), "summary of values")) {
    TextUnpacker in(text, "summary of values");
    ValueSummary one;
    one.n_nan_ = in.next_number<int64_t>();
    one.n_infinite_ = in.next_number<int64_t>();
    one.whole_ = in.next_number() != 0;
    one.many_ = in.next_number() != 0;
    one.moments_.n = in.next_number<int64_t>();
    for (double* v : {&one.min_, &one.max_, &one.moments_.mean, &one.moments_.m2})
      *v = in.next_double();
    while (!in.done()) {
      const double value = in.next_double();
      one.distinct_[value] = in.next_number<int64_t>();
    }
    all.merge(one);
  }
  all.bins_.assign(bins.data<int64_t>(), bins.data<int64_t>() + kBins);
  *this = std::move(all);
}

double ValueSummary::percentile(double p) const {
  BORA_CHECK(p >= 0 && p <= 100, "percentile ", p, ", wanted 0 to 100");
  int64_t total = 0;
  for (int64_t count : bins_) total += count;
  if (total == 0) return 0;
  if (p == 0) return min_;
  if (p == 100) return max_;
  const auto rank =
      std::max<int64_t>(1, static_cast<int64_t>(std::ceil(p * static_cast<double>(total) / 100)));
  int64_t below = 0;
  for (size_t i = 0; i < bins_.size(); ++i) {
    below += bins_[i];
    if (below < rank) continue;
    const Edges e = edges_of(i);
    // Whole numbers stand at the edge of their bin that is nearest to 0; 0 shares one with what is
    // next to nothing.
    const double value = whole_ || e.near == 0 ? e.near : 0.5 * (e.near + e.far);
    return std::clamp(value, min_, max_);
  }
  return max_;
}

std::vector<int64_t> ValueSummary::histogram(double low, double high, int n_bins) const {
  BORA_CHECK(n_bins > 0 && low <= high, "histogram of ", n_bins, " bins from ", low, " to ", high);
  std::vector<int64_t> out(static_cast<size_t>(n_bins), 0);
  const double width = (high - low) / n_bins;
  for (size_t i = 0; i < bins_.size(); ++i) {
    if (bins_[i] == 0) continue;
    const Edges e = edges_of(i);
    const double value = whole_ || e.near == 0 ? e.near : 0.5 * (e.near + e.far);
    const double at = width > 0 ? std::floor((value - low) / width) : 0;
    out[static_cast<size_t>(std::clamp(at, 0.0, static_cast<double>(n_bins - 1)))] += bins_[i];
  }
  return out;
}

}  // namespace bora::data
