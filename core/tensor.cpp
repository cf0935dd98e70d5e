// SPDX-License-Identifier: Apache-2.0
#include "core/tensor.hpp"

#include "core/backend.hpp"
#include "core/tape.hpp"

namespace bora {

namespace {

// Copies across devices go through the backend that knows both sides: CUDA's if either is CUDA.
Backend& backend_for(Device a, Device b) {
  return backend(a.type == DeviceType::cpu ? b.type : a.type);
}

}  // namespace

Tensor Tensor::empty(const Shape& shape, DType type, Device device) {
  Tensor t;
  t.storage_ = std::make_shared<Storage>(shape.numel() * size_of(type), device);
  t.shape_ = shape;
  t.dtype_ = type;
  return t;
}

Tensor Tensor::zeros(const Shape& shape, DType type, Device device) {
  return full(shape, 0.0, type, device);
}

Tensor Tensor::full(const Shape& shape, double value, DType type, Device device) {
  Tensor t = empty(shape, type, device);
  t.fill(value);
  return t;
}

Tensor Tensor::wrap(void* data, const Shape& shape, DType type, Device device,
                    std::function<void()> release) {
  Tensor t;
  t.storage_ =
      std::make_shared<Storage>(data, shape.numel() * size_of(type), device, std::move(release));
  t.shape_ = shape;
  t.dtype_ = type;
  return t;
}

Tensor Tensor::from_host(const Shape& shape, DType type, const void* values, int64_t n,
                         Device device) {
  BORA_CHECK(n == shape.numel(), "Tensor::from: ", n, " values for shape ", shape, ", which wants ",
             shape.numel());
  Tensor t = empty(shape, type, device);
  if (n > 0) backend(device.type).copy(t.stream(), t.raw(), device, values, cpu(), t.bytes());
  if (device != cpu())
    t.stream().synchronize();  // the caller's memory may go right after this call
  return t;
}

void* Tensor::raw() {
  BORA_CHECK(defined(), "Tensor: undefined tensor has no data");
  return shape_.numel() > 0 ? static_cast<char*>(storage_->data()) + offset_ : nullptr;
}

const void* Tensor::raw() const { return const_cast<Tensor*>(this)->raw(); }

void Tensor::check_type(DType wanted) const {
  BORA_CHECK(defined(), "Tensor: undefined tensor where ", wanted, " data is wanted");
  BORA_CHECK(dtype_ == wanted, "Tensor: ", shape_, " holds ", dtype_, ", ", wanted,
             " was asked for");
}

void Tensor::copy_to_host(void* out) const {
  if (numel() == 0) return;
  backend(device().type).copy(stream(), out, cpu(), raw(), device(), bytes());
  if (device() != cpu()) stream().synchronize();
}

double Tensor::item() const {
  BORA_CHECK(numel() == 1, "Tensor::item: wants one element, got shape ", shape_);
  return dispatch_any(dtype_, [&]<class T>() {
    T value;
    copy_to_host(&value);
    return static_cast<double>(static_cast<acc_t<T>>(value));
  });
}

Tensor Tensor::view(int64_t offset, const Shape& shape) const {
  BORA_CHECK(defined(), "Tensor::view: undefined tensor");
  BORA_CHECK(!node_, "Tensor::view: ", shape_,
             " is recorded on the tape; use nn::reshape or nn::slice, or detach() first");
  BORA_CHECK(offset >= 0 && offset + shape.numel() <= numel(), "Tensor::view: elements [", offset,
             ", ", offset + shape.numel(), ") of shape ", shape_, " with ", numel(), " elements");
  Tensor t = *this;
  t.offset_ += offset * size_of(dtype_);
  t.shape_ = shape;
  return t;
}

Tensor Tensor::reshape(const Shape& shape) const {
  BORA_CHECK(shape.numel() == shape_.numel(), "Tensor::reshape: ", shape_, " has ", numel(),
             " elements, ", shape, " wants ", shape.numel());
  return view(0, shape);
}

Tensor Tensor::rows(int64_t begin, int64_t end) const {
  BORA_CHECK(rank() > 0 && begin >= 0 && begin <= end && end <= shape_[0], "Tensor::rows: [", begin,
             ", ", end, ") of shape ", shape_);
  const int64_t per_row = shape_[0] ? numel() / shape_[0] : 0;
  return view(begin * per_row, shape_.with(0, end - begin));
}

Tensor Tensor::clone() const {
  Tensor t = empty(shape_, dtype_, device());
  t.copy_from(*this);
  return t;
}

Tensor Tensor::to(Device target) const {
  if (target == device()) return detach();
  Tensor t = empty(shape_, dtype_, target);
  t.copy_from(*this);
  return t;
}

Tensor Tensor::to(DType type) const {
  if (type == dtype_) return detach();
  Tensor t = empty(shape_, type, device());
  t.copy_from(*this);
  return t;
}

void Tensor::copy_from(const Tensor& source) {
  BORA_CHECK(defined() && source.defined(), "Tensor::copy_from: undefined tensor");
  BORA_CHECK(shape_ == source.shape_, "Tensor::copy_from: source is ", source.shape_,
             ", destination is ", shape_);
  if (numel() == 0) return;
  if (dtype_ == source.dtype_) {
    Backend& b = backend_for(device(), source.device());
    b.copy(current_stream(device() == cpu() ? source.device() : device()), raw(), device(),
           source.raw(), source.device(), bytes());
    if (device() == cpu() && source.device() != cpu()) source.stream().synchronize();
    return;
  }
  if (device() == source.device()) {
    backend(device().type).cast(stream(), raw(), dtype_, source.raw(), source.dtype_, numel());
    return;
  }
  copy_from(source.to(dtype_));  // convert where the source is, then copy
}

void Tensor::fill(double value) {
  if (numel() > 0) backend(device().type).fill(stream(), raw(), dtype_, value, numel());
}

Tensor Tensor::detach() const {
  Tensor t = *this;
  t.node_.reset();
  return t;
}

Tensor Tensor::with_node(std::shared_ptr<Node> node) const {
  Tensor t = *this;
  t.node_ = std::move(node);
  return t;
}

}  // namespace bora
