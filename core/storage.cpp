// SPDX-License-Identifier: Apache-2.0
#include "core/storage.hpp"

#include "core/allocator.hpp"
#include "core/error.hpp"

namespace bora {

Storage::Storage(int64_t bytes, Device device) : bytes_(bytes), device_(device), owned_(true) {
  BORA_CHECK(bytes >= 0, "Storage: ", bytes, " bytes asked for");
  if (bytes > 0) data_ = allocator(device).allocate(bytes);
}

Storage::Storage(void* data, int64_t bytes, Device device, std::function<void()> release)
    : data_(data), bytes_(bytes), device_(device), release_(std::move(release)) {
  BORA_CHECK(data != nullptr || bytes == 0, "Storage: a null pointer for ", bytes, " bytes");
}

Storage::~Storage() {
  if (owned_ && data_ != nullptr) allocator(device_).free(data_);
  if (release_) release_();
}

}  // namespace bora
