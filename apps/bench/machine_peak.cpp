// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/machine_peak.hpp"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/allocator.hpp"
#include "core/error.hpp"
#include "core/profile.hpp"
#include "core/tensor.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bora::bench {
namespace {

/// A loop of `rounds` passes over independent multiply-adds; returns something that depends on all
/// of them, so that none can be left out.
using Loop = float (*)(int64_t rounds);
struct Kernel {
  Loop loop;
  double flops_a_round;
};

// a <- 0.5 a + 1 tends to 2: no overflow, no denormal numbers.
constexpr float kFactor = 0.5f, kTerm = 1.0f;

constexpr int kPortable = 64;
float portable_loop(int64_t rounds) {
  float a[kPortable] = {};
  for (int64_t r = 0; r < rounds; ++r)
    for (int i = 0; i < kPortable; ++i) a[i] = a[i] * kFactor + kTerm;
  float sum = 0;
  for (const float v : a) sum += v;
  return sum;
}

#if defined(__x86_64__)
// Latency of 4 times 2 units asks for at least 8 chains; more fit beside the two operands.
constexpr int kChains256 = 12, kChains512 = 24;

[[gnu::target("avx2,fma")]] float avx2_loop(int64_t rounds) {
  __m256 a[kChains256];
  for (auto& v : a) v = _mm256_setzero_ps();
  const __m256 factor = _mm256_set1_ps(kFactor), term = _mm256_set1_ps(kTerm);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains256; ++i) a[i] = _mm256_fmadd_ps(a[i], factor, term);
  }
  __m256 sum = a[0];
  for (int i = 1; i < kChains256; ++i) sum = _mm256_add_ps(sum, a[i]);
  return _mm256_cvtss_f32(sum);
}

[[gnu::target("avx512f")]] float avx512_loop(int64_t rounds) {
  __m512 a[kChains512];
  for (auto& v : a) v = _mm512_setzero_ps();
  const __m512 factor = _mm512_set1_ps(kFactor), term = _mm512_set1_ps(kTerm);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 24
    for (int i = 0; i < kChains512; ++i) a[i] = _mm512_fmadd_ps(a[i], factor, term);
  }
  __m512 sum = a[0];
  for (int i = 1; i < kChains512; ++i) sum = _mm512_add_ps(sum, a[i]);
  return _mm512_cvtss_f32(sum);
}

[[gnu::target("avx512f,avx512bf16")]] float bf16_loop(int64_t rounds) {
  __m512 a[kChains512];
  for (auto& v : a) v = _mm512_setzero_ps();
  // 2^-60 in both: the sums stay far from overflow, and are normal numbers.
  const __m512bh x = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x2180));
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 24
    for (int i = 0; i < kChains512; ++i) a[i] = _mm512_dpbf16_ps(a[i], x, x);
  }
  __m512 sum = a[0];
  for (int i = 1; i < kChains512; ++i) sum = _mm512_add_ps(sum, a[i]);
  return _mm512_cvtss_f32(sum);
}

Kernel f32_kernel(std::string* vectors) {
  if (__builtin_cpu_supports("avx512f")) {
    *vectors = "AVX-512";
    return {avx512_loop, kChains512 * 16 * 2.0};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    *vectors = "AVX2";
    return {avx2_loop, kChains256 * 8 * 2.0};
  }
  *vectors = "portable";
  return {portable_loop, kPortable * 2.0};
}
Kernel bf16_kernel() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bf16"))
    return {bf16_loop, kChains512 * 16 * 4.0};
  return {nullptr, 0};
}
#else
Kernel f32_kernel(std::string* vectors) {
  *vectors = "portable";
  return {portable_loop, kPortable * 2.0};
}
Kernel bf16_kernel() { return {nullptr, 0}; }
#endif

/// Best time of `rounds` calls of work(thread) on all threads at once, from the common start to the
/// last one's end.
template <class Work>
double best_time_s(int threads, int rounds, Work&& work) {
  double best = 1e30;
  for (int round = 0; round < rounds; ++round) {
    double begin = 0, end = 0;
#pragma omp parallel num_threads(threads)
    {
#pragma omp barrier
#pragma omp master
      begin = now_s();
      work(omp_get_thread_num());
#pragma omp barrier
#pragma omp master
      end = now_s();
    }
    best = std::min(best, end - begin);
  }
  return best;
}

std::atomic<float> g_keep{0};

double arithmetic_rate(const Kernel& kernel, int threads) {
  if (kernel.loop == nullptr) return 0;
  // Rounds for about 5 ms of one thread, found by doubling.
  int64_t rounds = 1024;
  for (double s = 0; s < 2e-3; rounds *= 2) {
    const double begin = now_s();
    g_keep = kernel.loop(rounds);
    s = now_s() - begin;
  }
  const double s = best_time_s(threads, 15, [&](int) { g_keep = kernel.loop(rounds); });
  return kernel.flops_a_round * static_cast<double>(rounds) * threads / s;
}

}  // namespace

MachinePeak measure_machine_peak(int threads) {
  BORA_CHECK(threads > 0, "measure_machine_peak: ", threads, " threads, wanted at least 1");
  MachinePeak peak;
  peak.threads = threads;
  peak.f32 = arithmetic_rate(f32_kernel(&peak.vectors), threads);
  peak.bf16 = arithmetic_rate(bf16_kernel(), threads);

  // Arrays far larger than a core's share of the caches: 64 MiB a thread each.
  constexpr int64_t kPart = int64_t{16} << 20;
  {
    const AllocationTag tag("machine_peak");
    const Shape shape{threads * kPart};
    Tensor x = Tensor::zeros(shape, DType::f32), y = Tensor::zeros(shape, DType::f32),
           z = Tensor::zeros(shape, DType::f32);
    float *xs = x.data<float>(), *ys = y.data<float>(), *zs = z.data<float>();
    const double bytes = static_cast<double>(kPart) * threads * sizeof(float);
    peak.copy = 2 * bytes / best_time_s(threads, 4, [&](int t) {
                  std::memcpy(ys + t * kPart, xs + t * kPart, kPart * sizeof(float));
                });
    peak.triad = 3 * bytes / best_time_s(threads, 4, [&](int t) {
                   const float *a = xs + t * kPart, *b = zs + t * kPart;
                   float* out = ys + t * kPart;
#pragma omp simd
                   for (int64_t i = 0; i < kPart; ++i) out[i] = a[i] + 3.0f * b[i];
                 });
  }
  caching_allocator(cpu()).release_cached();
  return peak;
}

}  // namespace bora::bench
