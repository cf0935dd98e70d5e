// SPDX-License-Identifier: Apache-2.0
// ValueSummary: what the values of a field are like: extremes, mean, percentiles, distinct values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/collective.hpp"
#include "core/tensor.hpp"
#include "data/normalise.hpp"

namespace bora::data {

/// Values are added block by block; summaries of several blocks, cases or ranks are put together.
/// Counts and extremes do not depend on the order; mean and spread do in the last bits, so merge in
/// a fixed one.
class ValueSummary {
 public:
  /// Distinct values are counted up to so many.
  static constexpr size_t kMostDistinct = 256;

  /// Adds f32 or f64 values, as they lie there.  `region`: u8, as many; only cells with 1 count.
  void add(const Tensor& values, const Tensor& region = {});
  void merge(const ValueSummary& other);
  /// Collective: afterwards every rank has the summary of all: moments merged in rank order.
  void reduce(Collective& ranks);

  int64_t n() const { return moments_.n; }  ///< finite ones; all below is of them
  int64_t n_nan() const { return n_nan_; }
  int64_t n_infinite() const { return n_infinite_; }
  double min() const { return min_; }  ///< 0 where there is none
  double max() const { return max_; }
  const Moments& moments() const { return moments_; }
  /// For moments that were merged in another order.
  void set_moments(const Moments& moments) { moments_ = moments; }
  bool are_whole() const { return whole_; }  ///< no fraction anywhere

  /// The smallest value that at least p percent of all do not exceed, known to 12 bits (one part in
  /// 4096); whole numbers up to 4096, and p = 0 and 100, exactly.  p in [0, 100].
  double percentile(double p) const;
  /// Counts in `n_bins` bins of equal width over [low, high]; values beyond go to the outer bins.
  /// Values near a bin's edge may be counted in its neighbour (12 bits).
  std::vector<int64_t> histogram(double low, double high, int n_bins) const;
  /// Value -> count, where there are at most kMostDistinct of them; else empty.
  const std::map<double, int64_t>& distinct() const { return distinct_; }

 private:
  int64_t n_nan_ = 0, n_infinite_ = 0;
  double min_ = 0, max_ = 0;
  bool whole_ = true, many_ = false;
  Moments moments_;
  std::map<double, int64_t> distinct_;
  std::vector<int64_t> bins_;  // by the upper 21 bits of the f32 value, ascending; or empty
};

}  // namespace bora::data
