// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_bias.hpp"

#include "kernels/for_each.hpp"

namespace bora::kernels {
namespace {

// Copies know elements by their size only.
template <class T>
struct SpreadRow {
  const T* from;
  T* y;
  int64_t columns;
  BORA_HD T* row(int64_t r) const { return y + r * columns; }
  BORA_HD void operator()(T* to, int64_t c) const { to[c] = from[c]; }
};

template <class T>
void run(Stream stream, const Tensor& row, Tensor& y) {
  for_each_row(stream, y.size(0), y.size(1),
               SpreadRow<T>{static_cast<const T*>(row.raw()), static_cast<T*>(y.raw()), y.size(1)});
}

}  // namespace

void spread_rows(Stream stream, const Tensor& row, Tensor& y) {
  BORA_CHECK(row.defined() && y.defined() && y.rank() == 2, "spread_rows: wants (C) and (R, C)");
  BORA_CHECK(row.shape() == Shape{y.size(1)}, "spread_rows: row ", row.shape(), ", wanted (",
             y.size(1), ")");
  BORA_CHECK(row.dtype() == y.dtype() && row.device() == y.device(), "spread_rows: row is ",
             row.dtype(), " on ", row.device(), ", result ", y.dtype(), " on ", y.device());
  switch (size_of(y.dtype())) {
    case 1:
      return run<uint8_t>(stream, row, y);
    case 2:
      return run<uint16_t>(stream, row, y);
    case 4:
      return run<uint32_t>(stream, row, y);
    default:
      return run<uint64_t>(stream, row, y);
  }
}

}  // namespace bora::kernels
