// SPDX-License-Identifier: Apache-2.0
// ShardReducer: gradients whose bits do not depend on the number of ranks.
#pragma once

#include "comm/gradient_exchange.hpp"
#include "comm/shard_sum.hpp"

#include <vector>

namespace bora {

struct ShardOptions {
  /// Virtual shards of the global batch: micro-steps of a window on all ranks together.
  int64_t n_shards = 1;
  /// A parameter that got no gradient in any shard of this rank counts as zero instead of being an
  /// error.
  bool unused_as_zero = false;
};

/// Each micro-step computes one shard (comm/shard_sum.hpp says which); its gradients are taken out
/// of the buffer and summed in a fixed binary tree, here and over the ranks.  The loss is weighted
/// by the caller, as for GradientReducer with ReduceOp::sum.  The price: nothing overlaps with
/// backward, and log2(shards of a rank) + 1 buffers beside the gradients.
class ShardReducer final : public GradientExchange {
 public:
  /// As GradientReducer's; takes no hooks.  Collective.  Throws UsageError if the shards of a rank
  /// are no power of two or `collective` does not sum in tree order.
  ShardReducer(FlatBuffer& gradients, std::vector<Leaf*> leaves, Collective& collective,
               const ShardOptions& options);

  /// Forgets the gradients of the shard before.  Error if all shards of the window were added.
  void begin_micro_step(bool last) override;
  void end_micro_step() override;
  /// Error unless all shards of this rank were added.
  void finish() override;
  void abandon() override;

 private:
  FlatBuffer& gradients_;
  std::vector<Leaf*> leaves_;
  ShardOptions options_;
  ShardSum sum_;
  std::vector<char> used_;  // by leaf: has had a gradient in this window
};

}  // namespace bora
