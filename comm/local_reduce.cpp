// SPDX-License-Identifier: Apache-2.0
#include "comm/local_reduce.hpp"

#include <algorithm>
#include <type_traits>

namespace bora {
namespace {

constexpr int64_t kBlock = 1024;  // accumulators of one block stay in the first-level cache

// Unsigned 64-bit for integers: all our sums wrap, none is undefined.
template <class T>
struct Accumulator {
  using type = std::conditional_t<std::is_integral_v<T>, uint64_t, acc_t<T>>;
};
template <class T>
using accumulator_t = typename Accumulator<T>::type;

// Integers that are signed must be so again before a division or a comparison.
template <class T, class A>
auto value_of(A a) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<int64_t>(a);
  } else {
    return a;
  }
}

template <class T, class A>
A pick(ReduceOp op, A a, A b) {
  if constexpr (std::is_floating_point_v<A>) {
    if (a != a) return a;
    if (b != b) return b;
  }
  const bool smaller = value_of<T>(b) < value_of<T>(a);
  return smaller == (op == ReduceOp::min) ? b : a;
}

template <class T>
void reduce_typed(ReduceOp op, const std::vector<const void*>& rows, T* out, int64_t n) {
  using A = accumulator_t<T>;
  A acc[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t m = std::min(kBlock, n - begin);
    for (size_t r = 0; r < rows.size(); ++r) {
      const T* row = static_cast<const T*>(rows[r]) + begin;
      if (r == 0) {
        for (int64_t i = 0; i < m; ++i) acc[i] = static_cast<A>(row[i]);
      } else if (op == ReduceOp::sum || op == ReduceOp::mean) {
        for (int64_t i = 0; i < m; ++i) acc[i] += static_cast<A>(row[i]);
      } else {
        for (int64_t i = 0; i < m; ++i) acc[i] = pick<T>(op, acc[i], static_cast<A>(row[i]));
      }
    }
    if (op == ReduceOp::mean) {
      using V = decltype(value_of<T>(A{}));
      const V count = static_cast<V>(rows.size());
      for (int64_t i = 0; i < m; ++i) acc[i] = static_cast<A>(value_of<T>(acc[i]) / count);
    }
    for (int64_t i = 0; i < m; ++i) out[begin + i] = static_cast<T>(acc[i]);
  }
}

}  // namespace

void reduce_rows(DType type, ReduceOp op, const std::vector<const void*>& rows, void* out,
                 int64_t n) {
  BORA_CHECK(!rows.empty(), "reduce_rows: wants one row at least");
  dispatch_any(type, [&]<class T>() { reduce_typed<T>(op, rows, static_cast<T*>(out), n); });
}

}  // namespace bora
