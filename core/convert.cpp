// SPDX-License-Identifier: Apache-2.0
#include "core/convert.hpp"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace bora {

#if defined(__F16C__)
namespace {
constexpr int kNearestEven = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
#if defined(__AVX512F__)
// All lanes: the unmasked forms of some intrinsics make g++ 12 warn of undefined operands.
constexpr __mmask16 kAll = 0xffff;
#endif
}  // namespace
#endif

void widen_run(const Half* in, int64_t n, float* out) {
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(
        out + i,
        _mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i))));
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
#endif
  for (; i < n; ++i) out[i] = static_cast<float>(in[i]);
}

void narrow_run(const float* in, int64_t n, Half* out) {
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                        _mm512_maskz_cvtps_ph(kAll, _mm512_loadu_ps(in + i), kNearestEven));
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), kNearestEven));
#endif
  for (; i < n; ++i) out[i] = Half(in[i]);
}

void widen_run(const BFloat16* in, int64_t n, float* out) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(in[i]);
}

void narrow_run(const float* in, int64_t n, BFloat16* out) {
  int64_t i = 0;
#if defined(__AVX512F__)
  // As bfloat16_bits: add half of the last kept unit (ties to even), or keep a NaN, quiet.
  const __m512i one = _mm512_set1_epi32(1), half = _mm512_set1_epi32(0x7fff);
  const __m512i quiet = _mm512_set1_epi32(0x400000);
  for (; i + 16 <= n; i += 16) {
    const __m512 v = _mm512_loadu_ps(in + i);
    const __m512i x = _mm512_castps_si512(v);
    const __m512i odd = _mm512_maskz_and_epi32(kAll, _mm512_maskz_srli_epi32(kAll, x, 16), one);
    const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(x, half), odd);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i bits = _mm512_mask_or_epi32(rounded, nan, x, quiet);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                        _mm512_maskz_cvtepi32_epi16(kAll, _mm512_maskz_srli_epi32(kAll, bits, 16)));
  }
#endif
  for (; i < n; ++i) out[i] = BFloat16(in[i]);
}

}  // namespace bora
