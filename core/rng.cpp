// SPDX-License-Identifier: Apache-2.0
#include "core/rng.hpp"

namespace bora {
namespace {

thread_local RngPosition t_position;

uint64_t mix(uint64_t state, uint64_t value) {
  const Philox4 block = philox4x32(state, value, 0x626f7261u);  // "bora"
  return (static_cast<uint64_t>(block.v[0]) << 32) | block.v[1];
}

}  // namespace

uint64_t rng_stream(std::string_view purpose, uint64_t a, uint64_t b, uint64_t c) {
  uint64_t state = 0xcbf29ce484222325ull;  // FNV-1a over the purpose, then mixed
  for (const char ch : purpose) state = (state ^ static_cast<unsigned char>(ch)) * 0x100000001b3ull;
  // The two highest bits tell normal() and below() apart from bits(): keep them free.
  return mix(mix(mix(mix(state, a), b), c), purpose.size()) & 0x3fffffffffffffffull;
}

RngPosition rng_position() { return t_position; }
void set_rng_position(RngPosition position) { t_position = position; }

RngKey next_rng_key() {
  return {t_position.seed, rng_stream("op", t_position.base, t_position.next++)};
}

}  // namespace bora
