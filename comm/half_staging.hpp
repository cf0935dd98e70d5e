// SPDX-License-Identifier: Apache-2.0
// HalfStaging: gradients travel in 16 bits.
#pragma once

#include "core/collective.hpp"
#include "core/flat_buffer.hpp"

namespace bora {

/// A copy in f16 or bf16 of a buffer of f32 gradients, which is summed over the ranks in its place:
/// half the bytes for one conversion each way.
///
/// Each value is divided by P, the smallest power of two that is not below the number of ranks, as
/// it is converted: the sum of all ranks then lies in f16's range wherever each rank's own value
/// does.  The division is exact but where it leads below f16's smallest normal number, 2^-14.  With
/// u = 2^-11 (bf16: 2^-8) and s = 2^-25 (bf16: 2^-134), the largest relative error of a rounding
/// and the largest absolute one below the normal numbers, a sum of values g_r is off by at most
///   P * (sum_r max(u |g_r| / P, s) + max(u |sum_r g_r| / P, s)), and terms in u^2,
/// where the ranks' values are added in f32 and rounded once (shared, exchange); rings and halving
/// round each partial sum.
class HalfStaging {
 public:
  /// type: f16 or bf16.  memory: as in FlatBuffer::make.  Host memory only.
  HalfStaging(const FlatLayout& layout, DType type, int n_ranks, const MemorySource& memory);

  /// Elements [begin, end) of the copy, filled from `gradients` (end - begin) f32.
  Tensor pack(const Tensor& gradients, int64_t begin, int64_t end);
  /// The reverse, after the copy was summed; op mean divides by the number of ranks.
  void unpack(Tensor& gradients, int64_t begin, int64_t end, ReduceOp op) const;
  DType type() const { return buffer_.all().dtype(); }
  /// P.
  int64_t divisor() const { return divisor_; }

 private:
  FlatBuffer buffer_;
  int n_ranks_;
  int64_t divisor_;
};

}  // namespace bora
