// SPDX-License-Identifier: Apache-2.0
#include "comm/metric_sums.hpp"

#include <algorithm>
#include <limits>

namespace bora {
namespace {

// Combines b into a; entries without values do not count.
void combine(MetricSums::Entry& a, double sum, double count, double min, double max) {
  if (count == 0) return;
  const bool first = a.count == 0;
  // A NaN stays visible: std::min would drop it.
  a.min = first || min != min || min < a.min ? min : a.min;
  a.max = first || max != max || max > a.max ? max : a.max;
  a.sum += sum;
  a.count += count;
}

constexpr int kFields = 4;

}  // namespace

MetricSums::Entry* MetricSums::find(const std::string& name) {
  const auto it = std::find_if(entries_.begin(), entries_.end(),
                               [&](const Entry& e) { return e.name == name; });
  return it == entries_.end() ? nullptr : &*it;
}

void MetricSums::declare(const std::string& name) {
  if (find(name) == nullptr) entries_.push_back({name, 0, 0, 0, 0});
}

void MetricSums::add(const std::string& name, double sum, double count) {
  BORA_CHECK(count > 0, "MetricSums: '", name, "': wants a count above 0, got ", count);
  declare(name);
  combine(*find(name), sum, count, sum / count, sum / count);
}

void MetricSums::clear() {
  for (Entry& e : entries_) e = {e.name, 0, 0, 0, 0};
}

const MetricSums::Entry& MetricSums::at(const std::string& name) const {
  const Entry* entry = const_cast<MetricSums*>(this)->find(name);
  BORA_CHECK(entry != nullptr, "MetricSums: there is no metric '", name, "'");
  return *entry;
}

double MetricSums::mean(const std::string& name) const {
  const Entry& e = at(name);
  return e.count > 0 ? e.sum / e.count : std::numeric_limits<double>::quiet_NaN();
}

void MetricSums::reduce(Collective& collective, const std::string& label) {
  // The names are part of the label, and labels are compared before anything is sent.
  std::string full = label + ":";
  std::vector<double> mine;
  for (const Entry& e : entries_) {
    full += " " + e.name;
    mine.insert(mine.end(), {e.sum, e.count, e.min, e.max});
  }
  const auto n = static_cast<int64_t>(mine.size());
  const Tensor row = Tensor::from<double>({n}, mine);
  Tensor all = Tensor::empty({collective.size(), n}, DType::f64);
  collective.all_gather(row, all, full);
  clear();
  const double* values = all.data<double>();
  for (int r = 0; r < collective.size(); ++r) {
    for (Entry& e : entries_) {
      combine(e, values[0], values[1], values[2], values[3]);
      values += kFields;
    }
  }
}

}  // namespace bora
