// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/label_swap.hpp"

#include <charconv>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace bora::data {
namespace {

constexpr int kLargestLabel = 254;  // 255 stands for no class

std::optional<int> label_of(std::string_view text) {
  int value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (value < 0 || value > kLargestLabel) return std::nullopt;
  return value;
}

}  // namespace

LabelSwap::LabelSwap(const TransformConfig& config, const std::string& prefix) {
  if (config.sides != "none") axis_ = config.sides[0] - 'x';
  std::set<int> seen;
  for (const std::string& entry : config.swap_labels) {
    const size_t colon = entry.find(':');
    const auto a = label_of(std::string_view(entry).substr(0, colon));
    const auto b =
        colon == entry.npos ? std::nullopt : label_of(std::string_view(entry).substr(colon + 1));
    if (!a || !b || *a == *b)
      throw UsageError(prefix + ".swap_labels has '" + entry +
                       "', wanted two different labels of 0 to 254 with a colon between: 1:2");
    for (const int label : {*a, *b})
      if (!seen.insert(label).second)
        throw UsageError(prefix + ".swap_labels names the label " + std::to_string(label) +
                         " twice; a label has one other side");
    pairs_.emplace_back(*a, *b);
  }
}

void LabelSwap::apply(Tensor& target, const std::array<bool, 3>& flip) const {
  if (axis_ < 0 || pairs_.empty() || !flip[static_cast<size_t>(axis_)]) return;
  std::array<uint8_t, 256> other{};
  std::iota(other.begin(), other.end(), uint8_t{0});
  for (const auto& [a, b] : pairs_) {
    other[static_cast<size_t>(a)] = static_cast<uint8_t>(b);
    other[static_cast<size_t>(b)] = static_cast<uint8_t>(a);
  }
  if (!target.exclusive()) target = target.clone();
  uint8_t* t = target.data<uint8_t>();
  for (int64_t i = 0; i < target.numel(); ++i) t[i] = other[t[i]];
}

}  // namespace bora::data
