// SPDX-License-Identifier: Apache-2.0
// Element by element arithmetic, and sums of all elements.  All tensors of a call have one shape,
// floating type and device, unless said otherwise; f64 on the CPU only.
#pragma once

#include "core/rng.hpp"
#include "core/tensor.hpp"

namespace bora::kernels {

/// out = a + b.
void add(Stream stream, const Tensor& a, const Tensor& b, Tensor& out);
/// out = a * b.
void mul(Stream stream, const Tensor& a, const Tensor& b, Tensor& out);
/// y = factor * x.
void scale(Stream stream, double factor, const Tensor& x, Tensor& y);
/// y = factor * sum(x): x any shape, y () of type acc_t (f32 for the 16-bit types).  Fixed tree;
/// error below (chunk rows per lane + 30) units of the sum of magnitudes.
void sum(Stream stream, double factor, const Tensor& x, Tensor& y);
/// y[i] = factor * s: s () of type acc_t, y any shape.  The gradient of sum.
void spread(Stream stream, double factor, const Tensor& s, Tensor& y);
/// y[i] = x[i] / (1 - p) where key.uniform(i) >= p, else 0; 0 <= p < 1.  Its own adjoint.
void dropout(Stream stream, RngKey key, double p, const Tensor& x, Tensor& y);

/// The type of sums over `t`: f64 for f64, else f32.
constexpr DType sum_type(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace bora::kernels
