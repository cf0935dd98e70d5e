// SPDX-License-Identifier: Apache-2.0
#include "apps/common/heap.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#if defined(__GLIBC__)
#include <malloc.h>
#include <sys/mman.h>
#endif

namespace bora::apps {

#if defined(__GLIBC__)
namespace {

constexpr int kLargestOnHeap = 32 << 20;  // glibc refuses more
constexpr size_t kReserve = size_t{4} << 20;
constexpr uintptr_t kHugePage = uintptr_t{2} << 20;

/// Grows this thread's heap by the reserve, touches it and frees it: it stays on top of the heap,
/// where the next small blocks are cut from.
void grow() {
  void* reserve = std::malloc(kReserve);
  if (reserve == nullptr) return;  // then the step will say what it lacks
  const auto begin = reinterpret_cast<uintptr_t>(reserve);
  const uintptr_t first = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t last = (begin + kReserve) / kHugePage * kHugePage;
  // A hint: where it is refused, touching takes small pages.
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
  std::memset(reserve, 1, kReserve);
  // The compiler may not conclude that nobody reads what was written.
  asm volatile("" : : "r"(reserve) : "memory");
  std::free(reserve);
}

}  // namespace

void prepare_heap() {
  ::mallopt(M_MMAP_THRESHOLD, kLargestOnHeap);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
#pragma omp parallel
  grow();
}
#else
void prepare_heap() {}
#endif

}  // namespace bora::apps
