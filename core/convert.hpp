// SPDX-License-Identifier: Apache-2.0
// Runs of 16-bit elements as float and back, for loops on the CPU: the loop proper sees the
// arithmetic type only, and so becomes the same vector code for every storage type.  (Conversions
// inside a long loop body keep g++ from vectorising it: ten times slower.)
#pragma once

#include <type_traits>

#include "core/dtype.hpp"

namespace bora {

/// Stored in 16 bits, computed in float.
template <class T>
inline constexpr bool is_narrow = !std::is_same_v<T, acc_t<T>>;

/// out[i] = in[i] for n elements, by the processor's own conversions where it has them (the same
/// bits as core/half.hpp; a signalling NaN becomes a quiet one).
void widen_run(const Half* in, int64_t n, float* out);
void widen_run(const BFloat16* in, int64_t n, float* out);
void narrow_run(const float* in, int64_t n, Half* out);
void narrow_run(const float* in, int64_t n, BFloat16* out);

/// in[0 .. n) in the arithmetic type: `in` itself where it has that type, else converted into
/// `buffer`.
template <class T>
const acc_t<T>* widen(const T* in, int64_t n, [[maybe_unused]] acc_t<T>* buffer) {
  if constexpr (is_narrow<T>) {
    widen_run(in, n, buffer);
    return buffer;
  } else {
    return in;
  }
}

/// Where a loop writes results that belong at `out`: `out` itself, or `buffer` for narrow() to
/// convert.
template <class T>
acc_t<T>* wide_target(T* out, [[maybe_unused]] acc_t<T>* buffer) {
  if constexpr (is_narrow<T>) {
    return buffer;
  } else {
    return out;
  }
}

/// Brings what was written to wide_target(out, buffer) to `out`, rounded to nearest even.
template <class T>
void narrow(const acc_t<T>* target, T* out, int64_t n) {
  if constexpr (is_narrow<T>) narrow_run(target, n, out);
}

}  // namespace bora
