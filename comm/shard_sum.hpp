// SPDX-License-Identifier: Apache-2.0
// ShardSum: sums over a global batch whose bits do not depend on the number of ranks.
#pragma once

#include "core/collective.hpp"

#include <vector>

namespace bora {

/// The global batch is cut into `n_shards` virtual shards, the same for every number of ranks; rank
/// r of n computes the contributions of shards [r n_shards/n, (r+1) n_shards/n) one by one, in that
/// order.  They are summed in a fixed binary tree over the shards' numbers, (0+1)+(2+3): here as
/// they come, like a binary counter, so that log2(shards of a rank) + 1 buffers are held and not
/// one a shard; over the ranks by a communicator whose all-reductions are `reproducible`.
///
/// Sums are f32 (f64 for f64).  Equal bits of the total need equal bits of each shard's
/// contribution, which is the caller's part: the same shards of the same data, the same number of
/// threads, and nothing in a shard that depends on other shards (batch statistics, say).
class ShardSum {
 public:
  /// For contributions of `count` elements, f16, bf16, f32 or f64.  The number of shards a rank
  /// must be a power of two.  Throws UsageError if it is not, or if `collective` does not sum in
  /// tree order.  Keeps a reference to it.
  ShardSum(Collective& collective, int64_t n_shards, int64_t count, DType type);

  int64_t first_shard() const { return collective_.rank() * shards_here(); }
  int64_t shards_here() const { return shards_here_; }
  /// Contributions added since the last finish().
  int64_t n_added() const { return n_added_; }

  /// The contribution of this rank's next shard, of count elements.  Copied.
  void add(const Tensor& x);
  /// Collective; all shards must have been added.  out (count elements, any floating type) becomes
  /// the sum over all shards of all ranks, or the mean: the sum divided by n_shards, rounded once.
  void finish(Tensor& out, ReduceOp op, std::string_view label);
  /// Forgets what was added since the last finish().
  void abandon();

 private:
  Collective& collective_;
  int64_t n_shards_, count_, shards_here_ = 0, n_added_ = 0;
  DType type_, sum_type_;
  std::vector<Tensor> levels_;  // sums of 2^k shards, largest first
  size_t depth_ = 0;            // levels in use
};

}  // namespace bora
