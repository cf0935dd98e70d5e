// SPDX-License-Identifier: Apache-2.0
#include "apps/common/ordered_sums.hpp"

#include <algorithm>

namespace bora::apps {

OrderedSums::OrderedSums(std::vector<std::string> names) : names_(std::move(names)) {
  BORA_CHECK(!names_.empty(), "OrderedSums: no names");
}

void OrderedSums::add(int64_t place, const std::vector<double>& values,
                      const std::vector<double>& counts) {
  BORA_CHECK(values.size() == names_.size() && counts.size() == names_.size(),
             "OrderedSums: ", values.size(), " values and ", counts.size(), " counts for ",
             names_.size(), " metrics");
  // A double carries the place over the ranks.
  BORA_CHECK(place >= 0 && place < int64_t{1} << 53, "OrderedSums: place ", place,
             ", wanted 0 to 2^53");
  Row row{place, {}};
  for (size_t i = 0; i < names_.size(); ++i)
    row.numbers.insert(row.numbers.end(), {values[i], counts[i]});
  rows_.push_back(std::move(row));
}

MetricSums OrderedSums::reduce(Collective& collective, const std::string& label,
                               std::vector<Part>* parts) const {
  const auto width = static_cast<int64_t>(1 + 2 * names_.size());
  std::string full = label + ":";
  for (const std::string& name : names_) full += " " + name;
  const int64_t most =
      collective.all_reduce(static_cast<int64_t>(rows_.size()), ReduceOp::max, full);
  std::vector<double> mine(static_cast<size_t>(most * width), -1.0);  // place -1: nothing
  double* out = mine.data();
  for (const Row& row : rows_) {
    *out++ = static_cast<double>(row.place);
    out = std::copy(row.numbers.begin(), row.numbers.end(), out);
  }
  Tensor all = Tensor::empty({collective.size(), most * width}, DType::f64);
  collective.all_gather(Tensor::from<double>({most * width}, mine), all, full);

  std::vector<const double*> rows;
  for (int64_t i = 0; i < collective.size() * most; ++i)
    if (const double* row = all.data<double>() + i * width; row[0] >= 0) rows.push_back(row);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const double* a, const double* b) { return a[0] < b[0]; });
  MetricSums none;
  for (const std::string& name : names_) none.declare(name);
  MetricSums sums = none;
  const auto add = [&](MetricSums& to, const double* row) {
    for (size_t i = 0; i < names_.size(); ++i)
      if (row[2 + 2 * i] > 0) to.add(names_[i], row[1 + 2 * i], row[2 + 2 * i]);
  };
  for (const double* row : rows) {
    add(sums, row);
    if (parts == nullptr) continue;
    parts->push_back({static_cast<int64_t>(row[0]), none});
    add(parts->back().sums, row);
  }
  return sums;
}

}  // namespace bora::apps
