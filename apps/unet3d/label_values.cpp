// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/label_values.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "core/error.hpp"

namespace bora::unet3d {
namespace {

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

LabelValues label_values(const data::VolumesConfig& config) {
  LabelValues values;
  if (config.label_map.empty()) return values;
  const auto several = [&](const std::string& entry) {
    values.of_class.clear();
    values.type = DType::u8;
    values.text =
        "labels: class numbers, since volumes.label_map has several values for one class (" +
        entry + ")";
    return values;
  };
  std::vector<std::optional<int64_t>> found(config.classes.size());
  for (const std::string& entry : config.label_map) {
    const size_t colon = entry.rfind(':');
    if (colon == entry.npos) return several(entry);  // LabelMap refuses it
    const std::optional<int64_t> to = number(std::string_view(entry).substr(colon + 1));
    if (!to) continue;  // ignore
    const std::optional<int64_t> from = number(std::string_view(entry).substr(0, colon));
    if (*to < 0 || *to >= static_cast<int64_t>(found.size())) return several(entry);
    std::optional<int64_t>& place = found[static_cast<size_t>(*to)];
    if (*to == 0 && (!from || place)) {  // any value means background: 0 stands for it
      place = place.value_or(0);
      continue;
    }
    if (!from || place) return several(entry);
    place = from;
  }
  if (!found[0]) found[0] = 0;
  for (size_t k = 1; k < found.size(); ++k)
    if (!found[k]) return several("class " + std::to_string(k) + " has none");
  bool same = true;
  for (size_t k = 0; k < found.size(); ++k) {
    values.of_class.push_back(*found[k]);
    same = same && *found[k] == static_cast<int64_t>(k);
    if (*found[k] < 0 || *found[k] > 255) values.type = DType::i32;
    if (*found[k] < std::numeric_limits<int32_t>::min() ||
        *found[k] > std::numeric_limits<int32_t>::max())
      return several("a value is beyond 32 bits");
  }
  if (same) {
    values.of_class.clear();
    return values;
  }
  values.text = "labels: the values of volumes.label_map, ";
  for (size_t k = 0; k < found.size(); ++k)
    values.text += detail::join(k == 0 ? "" : ", ", *found[k], " for ", config.classes[k]);
  return values;
}

Tensor LabelValues::restore(const Tensor& classes) const {
  BORA_CHECK(classes.dtype() == DType::u8, "LabelValues: classes of type ", classes.dtype());
  if (of_class.empty()) return classes;
  Tensor out = Tensor::empty(classes.shape(), type);
  const uint8_t* from = classes.data<uint8_t>();
  for (int64_t i = 0; i < classes.numel(); ++i) {
    const int64_t value = of_class.at(from[i]);
    if (type == DType::u8)
      out.data<uint8_t>()[i] = static_cast<uint8_t>(value);
    else
      out.data<int32_t>()[i] = static_cast<int32_t>(value);
  }
  return out;
}

}  // namespace bora::unet3d
