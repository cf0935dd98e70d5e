// SPDX-License-Identifier: Apache-2.0
#include "core/rng.hpp"

#include <algorithm>

#include "core/box_muller.hpp"
#include "core/error.hpp"
#include "core/fnv.hpp"

namespace bora {
namespace {

thread_local RngPosition t_position;
thread_local uint64_t t_keys = 0;

uint64_t mix(uint64_t state, uint64_t value) {
  const Philox4 block = philox4x32(state, value, 0x626f7261u);  // "bora"
  return (static_cast<uint64_t>(block.v[0]) << 32) | block.v[1];
}

/// philox4x32 with each number in the lower half of 64 bits: the shape in which its products become
/// vector code.
struct WidePhilox4 {
  uint64_t v[4];
};
inline WidePhilox4 wide_philox4x32(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  constexpr uint64_t kLow = 0xffffffffu;
  uint64_t k0 = key & kLow, k1 = key >> 32;
  uint64_t c0 = counter_low & kLow, c1 = counter_low >> 32;
  uint64_t c2 = counter_high & kLow, c3 = counter_high >> 32;
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = 0xD2511F53u * c0, p1 = 0xCD9E8D57u * c2;
    c0 = (p1 >> 32) ^ c1 ^ k0;
    c2 = (p0 >> 32) ^ c3 ^ k1;
    c1 = p1 & kLow;
    c3 = p0 & kLow;
    k0 = (k0 + 0x9E3779B9u) & kLow;
    k1 = (k1 + 0xBB67AE85u) & kLow;
  }
  return {{c0, c1, c2, c3}};
}

constexpr uint64_t kRun = 512;               // values made at a time
constexpr uint64_t kThreadWorthy = 1 << 14;  // fewer stay on one thread

void normal_run(const RngKey& key, uint64_t run, double deviation, float* out) {
  const uint64_t seed = key.seed, stream = key.stream ^ 0x8000000000000000u;  // as RngKey::normal
#pragma omp simd
  for (uint64_t j = 0; j < kRun / 2; ++j) {
    const WidePhilox4 block = wide_philox4x32(seed, run * (kRun / 2) + j, stream);
    out[2 * j] = static_cast<float>(deviation * detail::box_muller(block.v[0], block.v[1]));
    out[2 * j + 1] = static_cast<float>(deviation * detail::box_muller(block.v[2], block.v[3]));
  }
}

void uniform_run(const RngKey& key, uint64_t run, double low, double width, float* out) {
  const uint64_t seed = key.seed, stream = key.stream;
#pragma omp simd
  for (uint64_t j = 0; j < kRun / 4; ++j) {
    const WidePhilox4 block = wide_philox4x32(seed, run * (kRun / 4) + j, stream);
    for (int k = 0; k < 4; ++k)
      out[4 * j + static_cast<uint64_t>(k)] =
          static_cast<float>(low + width * (detail::exact_double(block.v[k] >> 8) * 0x1p-24));
  }
}

/// Cuts the sequence at multiples of kRun and makes each run whole, if need be aside: an element
/// comes from the same instructions wherever a call begins and ends.
template <class MakeRun>
void fill_runs(uint64_t begin, std::span<float> out, const MakeRun& make_run) {
  if (out.empty()) return;
  const uint64_t end = begin + out.size();
  BORA_CHECK(end > begin, "random numbers: ", out.size(), " from element ", begin,
             " on pass the end of the sequence");
  const auto first = static_cast<int64_t>(begin / kRun);
  const auto last = static_cast<int64_t>((end - 1) / kRun);
#pragma omp parallel for schedule(static) if (out.size() > kThreadWorthy)
  for (int64_t r = first; r <= last; ++r) {
    const uint64_t run = static_cast<uint64_t>(r);
    const uint64_t from = std::max(begin, run * kRun), to = std::min(end, (run + 1) * kRun);
    float* const target = out.data() + (from - begin);
    if (to - from == kRun) {
      make_run(run, target);
    } else {
      alignas(64) float aside[kRun];
      make_run(run, aside);
      std::copy_n(aside + (from - run * kRun), to - from, target);
    }
  }
}

}  // namespace

void fill_normal(const RngKey& key, uint64_t begin, double deviation, std::span<float> out) {
  fill_runs(begin, out,
            [&](uint64_t run, float* target) { normal_run(key, run, deviation, target); });
}

void fill_uniform(const RngKey& key, uint64_t begin, double low, double high,
                  std::span<float> out) {
  fill_runs(begin, out,
            [&](uint64_t run, float* target) { uniform_run(key, run, low, high - low, target); });
}

uint64_t rng_stream(std::string_view purpose, uint64_t a, uint64_t b, uint64_t c) {
  // The two highest bits tell normal() and below() apart from bits(): keep them free.
  return mix(mix(mix(mix(fnv1a(purpose), a), b), c), purpose.size()) & 0x3fffffffffffffffull;
}

RngPosition rng_position() { return t_position; }
void set_rng_position(RngPosition position) { t_position = position; }

RngKey next_rng_key() {
  ++t_keys;
  return {t_position.seed, rng_stream("op", t_position.base, t_position.next++)};
}
uint64_t n_rng_keys() { return t_keys; }

}  // namespace bora
