// SPDX-License-Identifier: Apache-2.0
// OrderedSums: metrics whose bits do not depend on which rank contributed what.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/metric_sums.hpp"

namespace bora::apps {

/// Contributions of named sums and counts, each with its place in a global order.  They are kept
/// until reduce(), which collects those of all ranks and adds them in that order: the same numbers
/// for any number of ranks, as long as the contributions are the same.
class OrderedSums {
 public:
  /// Every rank gives the same names, at least one.
  explicit OrderedSums(std::vector<std::string> names);

  /// `place` is the contribution's own, on whatever rank.  values[i] of metric i is the sum over
  /// counts[i] values; a count of 0 leaves the metric out.
  void add(int64_t place, const std::vector<double>& values, const std::vector<double>& counts);
  /// Forgets all contributions.
  void clear() { rows_.clear(); }

  struct Part {
    int64_t place;
    MetricSums sums;
  };
  /// Collective; ranks may have different numbers of contributions, or none.  Keeps them.  `parts`
  /// receives the contributions of all ranks one by one, in order.
  MetricSums reduce(Collective& collective, const std::string& label,
                    std::vector<Part>* parts = nullptr) const;

 private:
  std::vector<std::string> names_;
  struct Row {
    int64_t place;
    std::vector<double> numbers;  // value, count of each metric
  };
  std::vector<Row> rows_;
};

}  // namespace bora::apps
