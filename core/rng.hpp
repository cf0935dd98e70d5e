// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10: random numbers as a pure function of (seed, stream, index), the same on CPU and
// GPU. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/portable.hpp"

namespace bora {

struct Philox4 {
  uint32_t v[4];
};

/// One block of four 32-bit numbers.
BORA_HD inline Philox4 philox4x32(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  uint32_t c0 = static_cast<uint32_t>(counter_low), c1 = static_cast<uint32_t>(counter_low >> 32);
  uint32_t c2 = static_cast<uint32_t>(counter_high), c3 = static_cast<uint32_t>(counter_high >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(0xD2511F53u) * c0;
    const uint64_t p1 = static_cast<uint64_t>(0xCD9E8D57u) * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// Names one independent sequence of random numbers.  Element i of it is a pure function of (seed,
/// stream, i).
struct RngKey {
  uint64_t seed = 0;
  uint64_t stream = 0;

  BORA_HD uint32_t bits(uint64_t i) const { return philox4x32(seed, i >> 2, stream).v[i & 3]; }
  /// Uniform in [0, 1), 24 bits.
  BORA_HD float uniform(uint64_t i) const {
    return static_cast<float>(bits(i) >> 8) * 5.9604644775390625e-8f;
  }
  /// Standard normal (Box-Muller on a pair of numbers of block i), in double on the host for
  /// repeatable tails.
  BORA_HD double normal(uint64_t i) const {
    const Philox4 block = philox4x32(seed, i >> 1, stream ^ 0x8000000000000000ull);
    const uint32_t a = (i & 1) ? block.v[2] : block.v[0];
    const uint32_t b = (i & 1) ? block.v[3] : block.v[1];
    const double u = (static_cast<double>(a) + 1.0) * 2.3283064365386963e-10;  // (0, 1]
    const double angle = static_cast<double>(b) * 1.4629180792671596e-9;       // [0, 2 pi)
    return ::sqrt(-2.0 * ::log(u)) * ::cos(angle);
  }
  /// Uniform integer in [0, n), n > 0, without the bias of a remainder worth mentioning (64-bit
  /// multiply-high).
  BORA_HD uint64_t below(uint64_t n, uint64_t i) const {
    const Philox4 block = philox4x32(seed, i, stream ^ 0x4000000000000000ull);
    const uint64_t x = (static_cast<uint64_t>(block.v[0]) << 32) | block.v[1];
#if defined(__CUDA_ARCH__)
    return __umul64hi(x, n);
#else
    return static_cast<uint64_t>((static_cast<unsigned __int128>(x) * n) >> 64);
#endif
  }
};

/// out[j] = deviation * key.normal(begin + j), rounded to f32 (arithmetic in double, not the
/// library's functions: a value in 10^8 is the neighbouring f32).  Vector code, on all threads if
/// there are enough values; the values do not depend on either.
void fill_normal(const RngKey& key, uint64_t begin, double deviation, std::span<float> out);
/// out[j] = low + (high - low) * key.uniform(begin + j), rounded to f32; as fill_normal.
void fill_uniform(const RngKey& key, uint64_t begin, double low, double high, std::span<float> out);

/// A stream number from a purpose and integers (epoch, sample, ...), by Philox mixing: streams of
/// different arguments are independent for all practical ends.
uint64_t rng_stream(std::string_view purpose, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0);

/// The thread's position for ops that draw (dropout): RngScope sets it, next_rng_key() takes one
/// stream and moves on.
struct RngPosition {
  uint64_t seed = 0;
  uint64_t base = 0;  ///< which update, rank ... : mixed into the stream
  uint64_t next = 0;
};
RngPosition rng_position();
void set_rng_position(RngPosition position);
RngKey next_rng_key();
/// Keys that this thread has taken so far: shows whether something draws.
uint64_t n_rng_keys();

/// Sets the position while it lives, restores the previous one afterwards.
class RngScope {
 public:
  explicit RngScope(RngPosition position) : previous_(rng_position()) {
    set_rng_position(position);
  }
  ~RngScope() { set_rng_position(previous_); }
  RngScope(const RngScope&) = delete;
  RngScope& operator=(const RngScope&) = delete;

 private:
  RngPosition previous_;
};

}  // namespace bora
