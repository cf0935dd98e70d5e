// SPDX-License-Identifier: Apache-2.0
// FlatBuffer: one tensor and named, aligned ranges of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/tensor.hpp"

namespace bora {

/// A part of a FlatBuffer.  The elements of `shape` start at `offset`; padding up to the next
/// range's offset is zero.
struct Range {
  std::string name;
  int64_t offset = 0;  ///< elements
  Shape shape;
  int64_t numel() const { return shape.numel(); }
};

/// Where named ranges lie, as elements: pure arithmetic, shared by buffers of several types.  Each
/// begins at a multiple of 64 elements (256 bytes in f32).
class FlatLayout {
 public:
  static constexpr int64_t kAlignment = 64;
  /// Appends a range and returns its index; throws on a second range of the same name.
  int add(std::string name, const Shape& shape);
  const std::vector<Range>& ranges() const { return ranges_; }
  const Range& range(int i) const { return ranges_.at(static_cast<size_t>(i)); }
  /// Elements in all, padding included.
  int64_t size() const { return size_; }

 private:
  std::vector<Range> ranges_;
  int64_t size_ = 0;
};

/// Gives memory for a buffer: (at least `bytes`) u8, at an address that is a multiple of 256.
using MemorySource = std::function<Tensor(int64_t bytes)>;

/// One zero-filled allocation with the ranges of a layout.
class FlatBuffer {
 public:
  FlatBuffer() = default;
  FlatBuffer(const FlatLayout& layout, DType type, Device device);
  /// In given memory, which is kept as long as a tensor over the buffer lives: (n) u8 with n >=
  /// layout.size() elements of `type`, at an address that is a multiple of 256.  Throws Error if it
  /// is too small or lies badly.
  FlatBuffer(const FlatLayout& layout, DType type, const Tensor& memory);
  /// In memory from `source`, or of its own on `device` where `source` is empty.
  static FlatBuffer make(const FlatLayout& layout, DType type, Device device,
                         const MemorySource& source);

  const FlatLayout& layout() const { return layout_; }
  /// The whole buffer, shape (size).
  Tensor& all() { return all_; }
  const Tensor& all() const { return all_; }
  /// Range i as a tensor of its own shape over the same bytes.
  Tensor part(int i) const;
  /// Elements [begin, end) as a flat tensor over the same bytes.
  Tensor slice(int64_t begin, int64_t end) const { return all_.rows(begin, end); }

 private:
  FlatLayout layout_;
  Tensor all_;
};

}  // namespace bora
