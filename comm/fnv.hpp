// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: FNV-1a, the same on all ranks (std::hash need not be).
#pragma once

#include <cstdint>
#include <string_view>

namespace bora {

inline constexpr uint64_t kFnvOffset = 0xcbf29ce484222325ull;

constexpr uint64_t fnv_step(uint64_t h, uint64_t word) { return (h ^ word) * 0x100000001b3ull; }

constexpr uint64_t fnv1a(std::string_view text, uint64_t h = kFnvOffset) {
  for (char c : text) h = fnv_step(h, static_cast<unsigned char>(c));
  return h;
}

}  // namespace bora
