// SPDX-License-Identifier: Apache-2.0
#include "core/storage.hpp"

#include "core/allocator.hpp"
#include "core/error.hpp"

namespace bora {

Storage::Storage(int64_t bytes, Device device) : bytes_(bytes), device_(device), owned_(true) {
  BORA_CHECK(bytes >= 0, "Storage: ", bytes, " bytes asked for");
  if (bytes == 0) return;
  pool_ = allocation_pool(device);
  data_ = pool_ ? pool_->allocate(bytes) : allocator(device).allocate(bytes);
}

Storage::Storage(void* data, int64_t bytes, Device device, std::function<void()> release)
    : data_(data), bytes_(bytes), device_(device), release_(std::move(release)) {
  BORA_CHECK(data != nullptr || bytes == 0, "Storage: a null pointer for ", bytes, " bytes");
}

Storage::~Storage() {
  if (owned_ && data_ != nullptr) {
    Allocator& from = pool_ ? static_cast<Allocator&>(*pool_) : allocator(device_);
    std::vector<Event> events;
    try {
      for (const Stream& stream : uses_) events.push_back(stream.record());
    } catch (const std::exception&) {  // a device that has failed uses nothing any more
      events.clear();
    }
    if (events.empty())
      from.free(data_);
    else
      from.free_after(data_, std::move(events));
  }
  if (release_) release_();
}

void Storage::record_use(Stream stream) {
  BORA_CHECK(stream.device == device_, "Storage: bytes on ", device_, " used by a stream on ",
             stream.device);
  for (const Stream& known : uses_)
    if (known.native == stream.native) return;
  uses_.push_back(stream);
}

}  // namespace bora
