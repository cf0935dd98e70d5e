// SPDX-License-Identifier: Apache-2.0
#include "data/label_map.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "core/error.hpp"

namespace bora::data {
namespace {

constexpr int64_t kTableSize = 4096;  // -1024 to 3071: atlases number their structures so

[[noreturn]] void refuse(const std::string& entry, const std::string& why) {
  throw UsageError("volumes.label_map: '" + entry + "' " + why +
                   "; wanted <value>:<class>, <first>-<last>:<class> or <first>-:<class>");
}

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [last, code] = std::from_chars(text.data(), end, value);
  if (text.empty() || code != std::errc() || last != end) return std::nullopt;
  return value;
}

}  // namespace

LabelMap::LabelMap(const VolumesConfig& config) {
  const auto n_classes = static_cast<int64_t>(config.classes.size());
  BORA_CHECK(n_classes >= 1, "volumes.classes is empty: wanted the names of the classes");
  is_identity_ = config.label_map.empty();
  if (is_identity_)
    ranges_.push_back({0, n_classes - 1, 0, "0 to " + std::to_string(n_classes - 1)});
  for (const std::string& entry : config.label_map) {
    const size_t colon = entry.rfind(':');
    if (colon == entry.npos) refuse(entry, "has no colon");
    const std::string_view from = std::string_view(entry).substr(0, colon);
    const std::string_view to = std::string_view(entry).substr(colon + 1);
    Range range{0, 0, kIgnore, std::string(from)};
    // The dash of a range is not the sign of its first number.
    const size_t dash = from.find('-', 1);
    const auto first = number(from.substr(0, dash));
    const auto last = dash == from.npos         ? first
                      : dash + 1 == from.size() ? std::optional(std::numeric_limits<int64_t>::max())
                                                : number(from.substr(dash + 1));
    if (!first || !last) refuse(entry, "has no whole number before the colon");
    if (*first > *last) refuse(entry, "is a range that ends before it begins");
    range.first = *first;
    range.last = *last;
    if (to != "ignore") {
      const auto c = number(to);
      if (!c) refuse(entry, "has neither a class number nor 'ignore' behind the colon");
      if (*c < 0 || *c >= n_classes)
        refuse(entry, "leads to class " + std::to_string(*c) + ", but volumes.classes names " +
                          std::to_string(n_classes) + ", from 0");
      range.to = static_cast<int>(*c);
    }
    ranges_.push_back(std::move(range));
  }
  const auto by_first = [](const Range& a, const Range& b) { return a.first < b.first; };
  std::sort(ranges_.begin(), ranges_.end(), by_first);
  for (size_t i = 1; i < ranges_.size(); ++i)
    if (ranges_[i].first <= ranges_[i - 1].last)
      throw UsageError("volumes.label_map: '" + ranges_[i - 1].text + "' and '" + ranges_[i].text +
                       "' overlap");
  if (!is_identity_ && search(0) == kNone) {
    ranges_.push_back({0, 0, 0, "0"});
    std::sort(ranges_.begin(), ranges_.end(), by_first);
  }
  table_.resize(kTableSize);
  for (int64_t i = 0; i < kTableSize; ++i)
    table_[static_cast<size_t>(i)] = static_cast<int16_t>(search(kTableBegin + i));
}

int LabelMap::search(int64_t value) const {
  auto it = std::upper_bound(ranges_.begin(), ranges_.end(), value,
                             [](int64_t v, const Range& range) { return v < range.first; });
  if (it == ranges_.begin() || value > (--it)->last) return kNone;
  return is_identity_ ? static_cast<int>(value) : it->to;
}

std::string LabelMap::wanted() const {
  std::string text;
  for (const Range& range : ranges_) text.append(text.empty() ? "" : ", ").append(range.text);
  return text;
}

}  // namespace bora::data
