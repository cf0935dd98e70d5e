// SPDX-License-Identifier: Apache-2.0
#include "core/readback.hpp"

#include "core/backend.hpp"
#include "core/error.hpp"

namespace bora {

int64_t DeviceReadback::push(const Tensor& x) {
  BORA_CHECK(x.defined() && x.device() == device_, "DeviceReadback: wants a tensor on ", device_,
             ", got ", x.defined() ? detail::join("one on ", x.device()) : "an undefined one");
  Pending pending{{++n_pushed_, pool_.tensor(x.shape(), x.dtype())}, {}};
  if (x.numel() > 0) {
    const Stream stream = current_stream(device_);
    backend(device_.type)
        .copy(stream, pending.item.values.raw(), cpu(), x.raw(), device_, x.bytes());
    pending.arrived = stream.record();
    pool_.guard(pending.item.values, pending.arrived);
  }
  items_.push_back(std::move(pending));
  return n_pushed_;
}

DeviceReadback::Item DeviceReadback::take() {
  Item item = std::move(items_.front().item);
  items_.pop_front();
  return item;
}

std::optional<DeviceReadback::Item> DeviceReadback::pop() {
  if (items_.empty() || !items_.front().arrived.done()) return std::nullopt;
  return take();
}

DeviceReadback::Item DeviceReadback::wait() {
  BORA_CHECK(!items_.empty(), "DeviceReadback: nothing is under way");
  if (!items_.front().arrived.done()) items_.front().arrived.synchronize();
  return take();
}

}  // namespace bora
