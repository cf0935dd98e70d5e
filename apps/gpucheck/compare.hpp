// SPDX-License-Identifier: Apache-2.0
// Comparison of results with a reference, and where its tolerance comes from.
#pragma once

#include <string>
#include <vector>

#include "apps/gpucheck/result.hpp"
#include "core/tensor.hpp"

namespace bora::gpucheck {

/// Bound of a result's relative error after n roundings in f32, each with an error of at most one
/// unit roundoff u of the numbers at that place, and one rounding to `stored`: n u / (1 - n u) by
/// Higham, "Accuracy and stability of numerical algorithms", 2002, lemma 3.1.
double relative_bound(double n, DType stored);

/// Compares element by element: fills rel_l2, max_abs, the tolerances (`bound` of the reference's
/// norm and of its largest element) and pass.  NaN must meet NaN.  Joins into `check`, so that
/// several outputs give their worst.
void compare(const std::vector<double>& got, const std::vector<double>& wanted, double bound,
             DType stored, Check& check);

/// All elements as f64, on the host.
std::vector<double> values_of(const Tensor& t);
/// Same shapes, types and bytes, on any devices.
bool same_bits(const Tensor& a, const Tensor& b);

}  // namespace bora::gpucheck
