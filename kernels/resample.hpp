// SPDX-License-Identifier: Apache-2.0
// Interpolation of volume batches (N, D, H, W, C) to other extents, and its adjoints in gather
// form.
#pragma once

#include "core/tensor.hpp"
#include "kernels/portable.hpp"

namespace bora::kernels {

/// Linear interpolation along one axis: half-pixel centres, edges clamped.  Target o lies at
/// ((2 o + 1) in - out) / (2 out) source cells; in integers, so that positions are exact.
struct LinearAxis {
  int64_t in, out;

  template <class A>
  struct Tap {
    int64_t lo, hi;
    A t;  ///< value = (1 - t) x[lo] + t x[hi]
  };
  template <class A>
  BORA_HD Tap<A> at(int64_t o) const {
    const int64_t numerator = (2 * o + 1) * in - out, denominator = 2 * out;
    if (numerator <= 0) return {0, 0, A(0)};
    const int64_t lo = numerator / denominator, rest = numerator - lo * denominator;
    // lo alone where the weight of hi is 0 or hi is outside: a NaN next door does no harm.
    if (rest == 0 || lo + 1 >= in) return {lo, lo, A(0)};
    return {lo, lo + 1, static_cast<A>(rest) / static_cast<A>(denominator)};
  }
  /// What target o takes from source i.
  template <class A>
  BORA_HD A weight(int64_t o, int64_t i) const {
    const Tap<A> tap = at<A>(o);
    return i == tap.lo ? A(1) - tap.t : i == tap.hi ? tap.t : A(0);
  }
  /// The first of a run of targets [first, last) outside which no target takes from source i.
  BORA_HD int64_t first(int64_t i) const {
    if (i == 0) return 0;
    const int64_t o = (2 * i - 1) * out / (2 * in) - 1;  // position i - 1, less one for rounding
    return o < 0 ? 0 : o;
  }
  BORA_HD int64_t last(int64_t i) const {
    if (i == in - 1) return out;
    const int64_t o = (2 * i + 3) * out / (2 * in) + 1;  // position i + 1, and one for rounding
    return o > out ? out : o;
  }
};

/// y = trilinear interpolation of x to y's extents, any ratio (at least one cell on each side).
void upsample_trilinear_forward(Stream stream, const Tensor& x, Tensor& y);
/// The exact adjoint: dx of x's shape from dy of y's.
void upsample_trilinear_backward(Stream stream, const Tensor& dy, Tensor& dx);
/// y[o] = x[floor(o * in / out)] along each axis.
void upsample_nearest_forward(Stream stream, const Tensor& x, Tensor& y);
/// The exact adjoint.
void upsample_nearest_backward(Stream stream, const Tensor& dy, Tensor& dx);

}  // namespace bora::kernels
