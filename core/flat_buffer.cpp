// SPDX-License-Identifier: Apache-2.0
#include "core/flat_buffer.hpp"

#include <algorithm>

namespace bora {

int FlatLayout::add(std::string name, const Shape& shape) {
  BORA_CHECK(
      std::none_of(ranges_.begin(), ranges_.end(), [&](const Range& r) { return r.name == name; }),
      "FlatLayout: two ranges are named '", name, "'");
  ranges_.push_back({std::move(name), size_, shape});
  size_ = (size_ + shape.numel() + kAlignment - 1) / kAlignment * kAlignment;
  return static_cast<int>(ranges_.size()) - 1;
}

FlatBuffer::FlatBuffer(const FlatLayout& layout, DType type, Device device)
    : layout_(layout), all_(Tensor::zeros({layout.size()}, type, device)) {}

Tensor FlatBuffer::part(int i) const {
  const Range& r = layout_.range(i);
  return all_.view(r.offset, r.shape);
}

}  // namespace bora
