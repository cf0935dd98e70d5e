// SPDX-License-Identifier: Apache-2.0
// The bias of a linear map, laid down before the product is added to it.
#pragma once

#include "core/tensor.hpp"

namespace bora::kernels {

/// y[r, c] = row[c].  row (C); y (R, C) of the same type, any element type.  Throws Error if they
/// do not fit.
void spread_rows(Stream stream, const Tensor& row, Tensor& y);

}  // namespace bora::kernels
