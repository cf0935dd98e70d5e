// SPDX-License-Identifier: Apache-2.0
// What tests of collectives give to each rank, and what they expect back.
#pragma once

#include "comm/communicator.hpp"
#include "core/rng.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace bora::testing {

inline const std::vector<DType> kTypes = {DType::f16, DType::bf16, DType::f32, DType::f64,
                                          DType::u8,  DType::i32,  DType::i64};
inline const std::vector<ReduceOp> kOps = {ReduceOp::sum, ReduceOp::mean, ReduceOp::min,
                                           ReduceOp::max};

/// Small pieces, so that short tensors go every way: in the record, direct, in many segments and
/// many messages; all of it by MPI.
inline CommunicatorOptions small_pieces() {
  CommunicatorOptions o;
  o.timeout_s = 30;
  o.message_bytes = 100;
  o.segment_bytes = 1000;
  o.direct_bytes = 200;
  o.stage_bytes = 0;  // short data would all go through shared memory
  return o;
}

inline CommunicatorOptions normal() {
  CommunicatorOptions o;
  o.timeout_s = 30;
  return o;
}

inline CommunicatorOptions inline_work() {
  CommunicatorOptions o = small_pieces();
  o.threaded = false;
  return o;
}

template <class T>
T computed_value(int rank, int64_t i) {
  const RngKey key{1234, rng_stream("comm test", static_cast<uint64_t>(rank))};
  if constexpr (std::is_same_v<T, double>) {
    return key.normal(static_cast<uint64_t>(i));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(key.bits(static_cast<uint64_t>(i)) - 0x80000000u);
  } else {
    return static_cast<T>(static_cast<float>(key.normal(static_cast<uint64_t>(i))));
  }
}

/// Element i of rank r, any type: floating values with full mantissas, integers of both signs.  Not
/// inlined: the compiler may fuse its last product with an addition of the reference's.  The first
/// ones are kept: making them takes longer than the reductions that they test.
template <class T>
[[gnu::noinline]] T value(int rank, int64_t i) {
  constexpr int64_t kKept = 4100;
  static std::vector<std::vector<T>> kept(8);
  if (i >= kKept || rank >= 8) return computed_value<T>(rank, i);
  std::vector<T>& values = kept[static_cast<size_t>(rank)];
  if (values.empty())
    for (int64_t k = 0; k < kKept; ++k) values.push_back(computed_value<T>(rank, k));
  return values[static_cast<size_t>(i)];
}

template <class T>
Tensor filled(const Shape& shape, int rank, int64_t first = 0) {
  std::vector<T> v(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = value<T>(rank, first + static_cast<int64_t>(i));
  return Tensor::from<T>(shape, v);
}

/// The contract, straight from core/collective.hpp: acc_t, rank order, one rounding at the end.
template <class T>
T expected(ReduceOp op, int size, int64_t i) {
  if constexpr (std::is_integral_v<T>) {
    int64_t acc = static_cast<int64_t>(value<T>(0, i));
    for (int r = 1; r < size; ++r) {
      const auto v = static_cast<int64_t>(value<T>(r, i));
      acc = op == ReduceOp::min   ? std::min(acc, v)
            : op == ReduceOp::max ? std::max(acc, v)
                                  : acc + v;
    }
    return static_cast<T>(op == ReduceOp::mean ? acc / size : acc);
  } else {
    using A = acc_t<T>;
    A acc = static_cast<A>(value<T>(0, i));
    for (int r = 1; r < size; ++r) {
      const A v = static_cast<A>(value<T>(r, i));
      acc = op == ReduceOp::min   ? std::min(acc, v)
            : op == ReduceOp::max ? std::max(acc, v)
                                  : acc + v;
    }
    return static_cast<T>(op == ReduceOp::mean ? acc / static_cast<A>(size) : acc);
  }
}

template <class T>
bool same_bits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class T, class F>
int64_t count_wrong(const Tensor& x, F&& wanted) {
  const T* data = x.data<T>();
  int64_t wrong = 0;
  for (int64_t i = 0; i < x.numel(); ++i) wrong += same_bits(data[i], T(wanted(i))) ? 0 : 1;
  return wrong;
}

}  // namespace bora::testing
