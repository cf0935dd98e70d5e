// SPDX-License-Identifier: Apache-2.0
#include "kernels/simt/stacks.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "core/error.hpp"

namespace bora::simt::detail {
namespace {

constexpr size_t kPage = 4096;
// A kernel's frame is some hundred bytes, a message of BORA_CHECK some kilobytes; instrumented code
// wants several times that.  Pages that are not touched cost nothing.
constexpr size_t kStackBytes = size_t{256} << 10;

}  // namespace

Stack::Stack(size_t number) : bytes_(kStackBytes - number % 61 * 64) {
  memory_ = ::mmap(nullptr, kPage + kStackBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory_ == MAP_FAILED) memory_ = nullptr;
  BORA_CHECK(memory_ != nullptr, "simt: no memory for a fiber's stack (", std::strerror(errno),
             ")");
  BORA_CHECK(::mprotect(memory_, kPage, PROT_NONE) == 0, "simt: mprotect: ", std::strerror(errno));
}

Stack::~Stack() {
  if (memory_ != nullptr) ::munmap(memory_, kPage + kStackBytes);
}

void* Stack::bottom() const { return static_cast<char*>(memory_) + kPage; }

}  // namespace bora::simt::detail
