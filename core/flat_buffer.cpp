// SPDX-License-Identifier: Apache-2.0
#include "core/flat_buffer.hpp"

#include <algorithm>
#include <cstdint>

namespace bora {
namespace {

// What FlatLayout promises of each range in f32.
constexpr uintptr_t kMemoryAlignment = 256;

}  // namespace

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

FlatBuffer::FlatBuffer(const FlatLayout& layout, DType type, const Tensor& memory)
    : layout_(layout) {
  const int64_t bytes = layout.size() * size_of(type);
  BORA_CHECK(memory.defined() && memory.dtype() == DType::u8 && memory.bytes() >= bytes,
             "FlatBuffer: given ", memory.bytes(), " bytes of memory, wanted ", bytes, " for ",
             layout.size(), " ", type);
  Tensor kept = memory.detach();
  BORA_CHECK(bytes == 0 || reinterpret_cast<uintptr_t>(kept.raw()) % kMemoryAlignment == 0,
             "FlatBuffer: the given memory does not begin at a multiple of ", kMemoryAlignment,
             " bytes");
  all_ = Tensor::wrap(kept.raw(), {layout.size()}, type, kept.device(), [kept] {});
  all_.fill(0.0);
}

FlatBuffer FlatBuffer::make(const FlatLayout& layout, DType type, Device device,
                            const MemorySource& source) {
  if (!source) return {layout, type, device};
  FlatBuffer buffer(layout, type, source(layout.size() * size_of(type)));
  BORA_CHECK(buffer.all().device() == device, "FlatBuffer: given memory on ", buffer.all().device(),
             ", wanted ", device);
  return buffer;
}

Tensor FlatBuffer::part(int i) const {
  const Range& r = layout_.range(i);
  return all_.view(r.offset, r.shape);
}

}  // namespace bora
