// SPDX-License-Identifier: Apache-2.0
// Winograd's F(M, 3) along one axis, M = 2 or 4 outputs from M + 2 inputs, on 16 channels at a
// time. Interpolation points 0, 1, -1, infinity for M = 2; 0, 1, -1, 2, -2, infinity for M = 4.
// Source: Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016.
// Internal linkage, AVX-512.  Fused multiplications are written out: all instances round alike.
#pragma once

#include "kernels/cpu/winograd_lanes.hpp"

namespace bora::kernels::cpu::winograd {
namespace {

BORA_LANES_INLINE __m512 add(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }
BORA_LANES_INLINE __m512 sub(__m512 a, __m512 b) { return _mm512_sub_ps(a, b); }
/// f a + b
BORA_LANES_INLINE __m512 fma(float f, __m512 a, __m512 b) {
  return _mm512_fmadd_ps(_mm512_set1_ps(f), a, b);
}
BORA_LANES_INLINE __m512 mul(float f, __m512 a) { return _mm512_mul_ps(_mm512_set1_ps(f), a); }

/// B^T: inputs to points.
template <int M>
BORA_LANES_INLINE void input_axis(const __m512 d[M + 2], __m512 v[M + 2]) {
  if constexpr (M == 2) {
    v[0] = sub(d[0], d[2]);
    v[1] = add(d[1], d[2]);
    v[2] = sub(d[2], d[1]);
    v[3] = sub(d[1], d[3]);
  } else {
    v[0] = fma(4, d[0], fma(-5, d[2], d[4]));
    const __m512 a = fma(-4, d[2], d[4]), b = fma(-4, d[1], d[3]);
    v[1] = add(a, b);
    v[2] = sub(a, b);
    const __m512 e = sub(d[4], d[2]), o = sub(d[3], d[1]);
    v[3] = fma(2, o, e);
    v[4] = fma(-2, o, e);
    v[5] = fma(4, d[1], fma(-5, d[3], d[5]));
  }
}

/// A^T: points to outputs.
template <int M>
BORA_LANES_INLINE void output_axis(const __m512 m[M + 2], __m512 y[M]) {
  const __m512 even = add(m[1], m[2]), odd = sub(m[1], m[2]);
  if constexpr (M == 2) {
    y[0] = add(m[0], even);
    y[1] = sub(odd, m[3]);
  } else {
    const __m512 even2 = add(m[3], m[4]), odd2 = sub(m[3], m[4]);
    y[0] = add(add(m[0], even), even2);
    y[1] = fma(2, odd2, odd);
    y[2] = fma(4, even2, even);
    y[3] = fma(8, odd2, add(odd, m[5]));
  }
}

/// A, the adjoint: gradients of outputs to points.  For M = 2 without the sign of its last row,
/// which weight_adjoint_axis puts right.
template <int M>
BORA_LANES_INLINE void output_adjoint_axis(const __m512 y[M], __m512 z[M + 2]) {
  z[0] = y[0];
  if constexpr (M == 2) {
    z[1] = add(y[0], y[1]);
    z[2] = sub(y[0], y[1]);
    z[3] = y[1];
  } else {
    const __m512 even = add(y[0], y[2]), odd = add(y[1], y[3]);
    z[1] = add(even, odd);
    z[2] = sub(even, odd);
    const __m512 even2 = fma(4, y[2], y[0]), odd2 = fma(4, y[3], y[1]);
    z[3] = fma(2, odd2, even2);
    z[4] = fma(-2, odd2, even2);
    z[5] = y[3];
  }
}

/// G: taps to points.
template <int M>
BORA_LANES_INLINE void weight_axis(const __m512 g[3], __m512 u[M + 2]) {
  const __m512 even = add(g[0], g[2]);
  if constexpr (M == 2) {
    const __m512 half = mul(0.5f, even);
    u[0] = g[0];
    u[1] = fma(0.5f, g[1], half);
    u[2] = fma(-0.5f, g[1], half);
    u[3] = g[2];
  } else {
    u[0] = mul(0.25f, g[0]);
    u[1] = mul(-1.0f / 6, add(even, g[1]));
    u[2] = mul(-1.0f / 6, sub(even, g[1]));
    const __m512 even2 = fma(4, g[2], g[0]);
    u[3] = mul(1.0f / 24, fma(2, g[1], even2));
    u[4] = mul(1.0f / 24, fma(-2, g[1], even2));
    u[5] = g[2];
  }
}

/// G^T, the adjoint: gradients of points to gradients of taps.
template <int M>
BORA_LANES_INLINE void weight_adjoint_axis(const __m512 u[M + 2], __m512 g[3]) {
  const __m512 even = add(u[1], u[2]), odd = sub(u[1], u[2]);
  if constexpr (M == 2) {
    const __m512 half = mul(0.5f, even);
    g[0] = add(u[0], half);
    g[1] = mul(0.5f, odd);
    g[2] = sub(half, u[3]);
  } else {
    const __m512 even2 = add(u[3], u[4]), odd2 = sub(u[3], u[4]);
    g[0] = fma(0.25f, u[0], mul(1.0f / 24, fma(-4, even, even2)));
    g[1] = mul(1.0f / 12, fma(-2, odd, odd2));
    g[2] = fma(1.0f / 6, sub(even2, even), u[5]);
  }
}

}  // namespace
}  // namespace bora::kernels::cpu::winograd
