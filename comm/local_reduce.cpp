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

// acc = acc op x, element by element.
template <class T, class A, class X>
void add_block(ReduceOp op, A* acc, const X* x, int64_t n) {
  if (op == ReduceOp::sum || op == ReduceOp::mean) {
    for (int64_t i = 0; i < n; ++i) acc[i] += static_cast<A>(x[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) acc[i] = pick<T>(op, acc[i], static_cast<A>(x[i]));
  }
}

template <class T, class A>
void divide_block(A* acc, int64_t divisor, int64_t n) {
  using V = decltype(value_of<T>(A{}));
  const V count = static_cast<V>(divisor);
  for (int64_t i = 0; i < n; ++i) acc[i] = static_cast<A>(value_of<T>(acc[i]) / count);
}

/// One block of the rows, at `begin`, reduced into acc[0..n).
template <class T, class A>
void reduce_in_rank_order(ReduceOp op, const std::vector<const void*>& rows, int64_t begin, A* acc,
                          int64_t n) {
  const auto row = [&](size_t r) { return static_cast<const T*>(rows[r]) + begin; };
  if (op == ReduceOp::sum || op == ReduceOp::mean) {
    // Two rows at a time: memory is read in two streams at once, and acc passed over half as often.
    size_t r = rows.size() % 2;
    const T* first = row(0);
    if (r == 1) {
      for (int64_t i = 0; i < n; ++i) acc[i] = static_cast<A>(first[i]);
    } else {
      const T* second = row(1);
      for (int64_t i = 0; i < n; ++i) acc[i] = static_cast<A>(first[i]) + static_cast<A>(second[i]);
      r = 2;
    }
    for (; r < rows.size(); r += 2) {
      const T *a = row(r), *b = row(r + 1);
      for (int64_t i = 0; i < n; ++i)
        acc[i] = (acc[i] + static_cast<A>(a[i])) + static_cast<A>(b[i]);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) acc[i] = static_cast<A>(row(0)[i]);
  for (size_t r = 1; r < rows.size(); ++r) add_block<T>(op, acc, row(r), n);
}

// Memory is asked for the next block while this one is summed: the processor's own look ahead ends
// at every page, which is as long as a block.
template <class T>
void prefetch_block(const std::vector<const void*>& rows, int64_t begin, int64_t end) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = begin; i < end; i += kLine)
    for (const void* row : rows) __builtin_prefetch(static_cast<const T*>(row) + i, 1);
}

/// As a binary counter counts: after row r the levels that hold a sum are the ones of r + 1.
template <class T, class A>
void reduce_in_tree_order(ReduceOp op, const std::vector<const void*>& rows, int64_t begin, A* acc,
                          int64_t n) {
  constexpr size_t kLevels = 32;
  thread_local std::vector<A> levels[kLevels];
  const auto level = [&](size_t k) {
    levels[k].resize(static_cast<size_t>(kBlock));
    return levels[k].data();
  };
  size_t depth = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    const T* row = static_cast<const T*>(rows[r]) + begin;
    A* top = level(depth++);
    for (int64_t i = 0; i < n; ++i) top[i] = static_cast<A>(row[i]);
    for (size_t carry = r; (carry & 1) != 0; carry >>= 1, --depth)
      add_block<T>(op, level(depth - 2), level(depth - 1), n);
  }
  for (; depth > 1; --depth) add_block<T>(op, level(depth - 2), level(depth - 1), n);
  std::copy_n(level(0), n, acc);
}

template <class T>
void reduce_typed(ReduceOp op, SumOrder order, const std::vector<const void*>& rows,
                  const std::vector<void*>& outs, int64_t n) {
  using A = accumulator_t<T>;
  A acc[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t m = std::min(kBlock, n - begin);
    prefetch_block<T>(rows, begin + m, std::min(begin + m + kBlock, n));
    if (order == SumOrder::rank) {
      reduce_in_rank_order<T>(op, rows, begin, acc, m);
    } else {
      reduce_in_tree_order<T>(op, rows, begin, acc, m);
    }
    if (op == ReduceOp::mean) divide_block<T>(acc, static_cast<int64_t>(rows.size()), m);
    for (void* out : outs) {
      T* to = static_cast<T*>(out) + begin;
      for (int64_t i = 0; i < m; ++i) to[i] = static_cast<T>(acc[i]);
    }
  }
}

}  // namespace

void reduce_rows(DType type, ReduceOp op, SumOrder order, const std::vector<const void*>& rows,
                 const std::vector<void*>& outs, int64_t n) {
  BORA_CHECK(!rows.empty(), "reduce_rows: wants one row at least");
  dispatch_any(type, [&]<class T>() { reduce_typed<T>(op, order, rows, outs, n); });
}

void reduce_rows(DType type, ReduceOp op, const std::vector<const void*>& rows, void* out,
                 int64_t n) {
  reduce_rows(type, op, SumOrder::rank, rows, {out}, n);
}

void divide(DType type, void* data, int64_t divisor, int64_t n) {
  BORA_CHECK(divisor > 0, "divide: wants a positive divisor, got ", divisor);
  dispatch_any(type, [&]<class T>() {
    T* x = static_cast<T*>(data);
    using A = accumulator_t<T>;
    A acc[kBlock];
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      const int64_t m = std::min(kBlock, n - begin);
      for (int64_t i = 0; i < m; ++i) acc[i] = static_cast<A>(x[begin + i]);
      divide_block<T>(acc, divisor, m);
      for (int64_t i = 0; i < m; ++i) x[begin + i] = static_cast<T>(acc[i]);
    }
  });
}

}  // namespace bora
