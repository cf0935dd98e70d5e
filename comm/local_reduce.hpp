// SPDX-License-Identifier: Apache-2.0
// reduce_rows: the arithmetic of every reduction, in one place and in a stated order.
#pragma once

#include "core/collective.hpp"

namespace bora {

/// In which order the rows of a sum are taken.
enum class SumOrder {
  rank,  ///< ((0 + 1) + 2) + 3
  tree,  ///< (0 + 1) + (2 + 3): pairs of neighbours, then pairs of pairs; a row without a neighbour
         ///< waits for the next level.  Sums of equal aligned halves can be formed apart.
};

/// out[i] = op over r of rows[r][i], i < n, formed in the order of r: ((rows[0] + rows[1]) + ...).
/// Sums in acc_t of the type, rounded once at the end; mean divides the sum by the number of rows
/// (integers: truncated; integer sums wrap around).  min and max give NaN where any row has NaN.
/// `out` may be one of the rows.  The same bits on every machine with IEEE arithmetic.
void reduce_rows(DType type, ReduceOp op, const std::vector<const void*>& rows, void* out,
                 int64_t n);

/// The same in the given order, with the result written to each of `outs`, any of which may be a
/// row.  Rows that overlap in part are not allowed.
void reduce_rows(DType type, ReduceOp op, SumOrder order, const std::vector<const void*>& rows,
                 const std::vector<void*>& outs, int64_t n);

/// data[i] = data[i] / divisor in acc_t, as the end of a mean; integers truncate.
void divide(DType type, void* data, int64_t divisor, int64_t n);

}  // namespace bora
