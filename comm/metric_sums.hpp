// SPDX-License-Identifier: Apache-2.0
// MetricSums: metrics as sums and counts, so that many ranks give one rank's numbers.
#pragma once

#include "core/collective.hpp"

#include <string>
#include <vector>

namespace bora {

/// Named sums with counts and ranges.  A mean of means is wrong when ranks hold unequal shares; so
/// only sums and counts are combined, and formulas (mean, root of a mean square, ...) come after.
class MetricSums {
 public:
  struct Entry {
    std::string name;
    double sum = 0;
    double count = 0;
    double min = 0, max = 0;  ///< of the means of what was added; valid when count > 0
  };

  /// Declares a metric.  Every rank must declare the same ones in the same order, also a rank
  /// without a sample; add() declares by itself.
  void declare(const std::string& name);
  /// Adds `count` > 0 values whose sum is `sum`; min and max see sum / count.
  void add(const std::string& name, double sum, double count = 1);
  /// Forgets the values, keeps the names.
  void clear();

  /// Combines all ranks' values in rank order, in one operation: afterwards all ranks hold the same
  /// bits.  Every rank must call it; different names are an Error on all ranks.
  void reduce(Collective& collective, const std::string& label = "metrics");

  const std::vector<Entry>& entries() const { return entries_; }
  const Entry& at(const std::string& name) const;
  /// sum / count; NaN when nothing was added.
  double mean(const std::string& name) const;

 private:
  Entry* find(const std::string& name);
  std::vector<Entry> entries_;
};

}  // namespace bora
