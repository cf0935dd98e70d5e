// SPDX-License-Identifier: Apache-2.0
// core/storage.cpp's place in libFuzzer's programs: each tensor has memory of its own, of just its
// bytes.  In the allocator's shared segments AddressSanitizer would not see a write behind one.
#include "core/storage.hpp"

#include <cstdlib>

#include "core/error.hpp"

namespace bora {

Storage::Storage(int64_t bytes, Device device) : bytes_(bytes), device_(device), owned_(true) {
  BORA_CHECK(bytes >= 0, "Storage: ", bytes, " bytes asked for");
  if (bytes == 0) return;
  constexpr size_t kAlignment = 256;  // as core/allocator.cpp has it
  BORA_CHECK(::posix_memalign(&data_, kAlignment, static_cast<size_t>(bytes)) == 0,
             "no memory for ", bytes, " bytes");
}

Storage::Storage(void* data, int64_t bytes, Device device, std::function<void()> release)
    : data_(data), bytes_(bytes), device_(device), release_(std::move(release)) {}

Storage::~Storage() {
  if (owned_) std::free(data_);
  if (release_) release_();
}

void Storage::record_use(Stream) {}

}  // namespace bora
