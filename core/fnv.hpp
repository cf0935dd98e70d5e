// SPDX-License-Identifier: Apache-2.0
// FNV-1a, 64 bits: the same on all ranks, in all builds and in files (std::hash need not be).
// Source: Fowler, Noll and Vo, draft-eastlake-fnv.
#pragma once

#include <cstdint>
#include <string_view>

namespace bora {

/// What an empty text comes to; where a hash of pieces begins.
inline constexpr uint64_t kFnvOffset = 0xcbf29ce484222325ull;

/// FNV-1a of one byte behind what came to `h`.  A whole word may stand for the byte: eight times as
/// fast, but no published hash any more.
constexpr uint64_t fnv_step(uint64_t h, uint64_t word) { return (h ^ word) * 0x100000001b3ull; }

/// Of a text, behind what came to `h`.
constexpr uint64_t fnv1a(std::string_view text, uint64_t h = kFnvOffset) {
  for (const char c : text) h = fnv_step(h, static_cast<unsigned char>(c));
  return h;
}

}  // namespace bora
