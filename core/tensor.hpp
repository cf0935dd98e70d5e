// SPDX-License-Identifier: Apache-2.0
// Tensor: a dense, channels-last array on a device, perhaps with a place on the tape.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/dtype.hpp"
#include "core/shape.hpp"
#include "core/storage.hpp"
#include "core/stream.hpp"

namespace bora {

class Node;

/// A value type: copying shares the bytes.  Always dense, the shape is the order in memory: a
/// volume batch is (N, D, H, W, C).  A default Tensor is undefined.  Tensors recorded on the tape
/// must not be written again.
class Tensor {
 public:
  Tensor() = default;

  /// Uninitialised memory.
  static Tensor empty(const Shape& shape, DType type, Device device = cpu());
  static Tensor zeros(const Shape& shape, DType type, Device device = cpu());
  static Tensor full(const Shape& shape, double value, DType type, Device device = cpu());
  /// A copy of host values; throws if the count differs from shape.numel().
  template <class T>
  static Tensor from(const Shape& shape, std::span<const T> values, Device device = cpu()) {
    return from_host(shape, dtype_of<T>, values.data(), static_cast<int64_t>(values.size()),
                     device);
  }
  template <class T>
  static Tensor from(const Shape& shape, const std::vector<T>& values, Device device = cpu()) {
    return from<T>(shape, std::span<const T>(values), device);
  }
  template <class T>
  static Tensor scalar(T value, Device device = cpu()) {
    return from<T>(Shape{}, std::span<const T>(&value, 1), device);
  }
  /// A tensor over memory of somebody else, who keeps it alive until `release` (may be empty) is
  /// called.
  static Tensor wrap(void* data, const Shape& shape, DType type, Device device = cpu(),
                     std::function<void()> release = {});

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int64_t size(int axis) const { return shape_.at(axis); }
  int rank() const { return shape_.rank(); }
  DType dtype() const { return dtype_; }
  Device device() const { return storage_ ? storage_->device() : Device{}; }
  int64_t numel() const { return defined() ? shape_.numel() : 0; }
  int64_t bytes() const { return numel() * size_of(dtype_); }
  Stream stream() const { return current_stream(device()); }

  void* raw();
  const void* raw() const;
  /// Elements as T; throws if the tensor is undefined or has another type.  nullptr when there are
  /// none.
  template <class T>
  T* data() {
    check_type(dtype_of<T>);
    return static_cast<T*>(raw());
  }
  template <class T>
  const T* data() const {
    check_type(dtype_of<T>);
    return static_cast<const T*>(raw());
  }
  /// All elements on the host (waits for the device), in memory order; T must be the tensor's type.
  template <class T>
  std::vector<T> to_vector() const {
    check_type(dtype_of<T>);
    std::vector<T> out(static_cast<size_t>(numel()));
    copy_to_host(out.data());
    return out;
  }
  /// The only element, as double, on the host (waits for the device); throws unless numel() == 1.
  double item() const;

  /// Same bytes, other shape with as many elements.  Not recorded: throws on a tensor with a place
  /// on the tape (use nn::reshape there).
  Tensor reshape(const Shape& shape) const;
  /// A dense part of the same bytes, from element `offset` on.  Not recorded, as reshape.
  Tensor view(int64_t offset, const Shape& shape) const;
  /// Rows [begin, end) along the first axis; shares the bytes.  Not recorded, as reshape.
  Tensor rows(int64_t begin, int64_t end) const;

  /// Copies; not recorded.
  Tensor clone() const;
  Tensor to(Device device) const;
  Tensor to(DType type) const;
  /// Writes: shapes and types must match (copy_from converts types).
  void copy_from(const Tensor& source);
  void fill(double value);

  /// The same bytes without a place on the tape.
  Tensor detach() const;
  /// The recorded node that made this tensor, a leaf, or nullptr.
  const std::shared_ptr<Node>& node() const { return node_; }
  bool requires_grad() const { return node_ != nullptr; }
  /// The same bytes with a place on the tape (for the tape and for parameters).
  Tensor with_node(std::shared_ptr<Node> node) const;

  /// True when no other tensor shares the bytes, so that they may be written in place.
  bool exclusive() const { return storage_ && storage_.use_count() == 1; }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  int64_t storage_offset() const { return offset_; }

 private:
  static Tensor from_host(const Shape& shape, DType type, const void* values, int64_t n,
                          Device device);
  void check_type(DType wanted) const;
  void copy_to_host(void* out) const;

  std::shared_ptr<Storage> storage_;
  int64_t offset_ = 0;  // bytes
  Shape shape_;
  DType dtype_ = DType::f32;
  std::shared_ptr<Node> node_;
};

}  // namespace bora
