// SPDX-License-Identifier: Apache-2.0
// reduce_rows: the arithmetic of every reduction, in one place and in rank order.
#pragma once

#include "core/collective.hpp"

namespace bora {

/// out[i] = op over r of rows[r][i], i < n, formed in the order of r: ((rows[0] + rows[1]) + ...).
/// Sums in acc_t of the type, rounded once at the end; mean divides the sum by the number of rows
/// (integers: truncated; integer sums wrap around).  min and max give NaN where any row has NaN.
/// `out` may be one of the rows.  The same bits on every machine with IEEE arithmetic.
void reduce_rows(DType type, ReduceOp op, const std::vector<const void*>& rows, void* out,
                 int64_t n);

}  // namespace bora
