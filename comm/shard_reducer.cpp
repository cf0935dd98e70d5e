// SPDX-License-Identifier: Apache-2.0
#include "comm/shard_reducer.hpp"

#include <algorithm>
#include <chrono>
#include <string>

namespace bora {

ShardReducer::ShardReducer(FlatBuffer& gradients, std::vector<Leaf*> leaves, Collective& collective,
                           const ShardOptions& options)
    : gradients_(gradients),
      leaves_(std::move(leaves)),
      options_(options),
      sum_(collective, options.n_shards, gradients.all().numel(), gradients.all().dtype()),
      used_(leaves_.size(), 0) {
  check_gradient_ranges("ShardReducer", gradients_, leaves_, collective);
  check_same_layout("ShardReducer", gradients_.layout(),
                    detail::join(gradients_.all().dtype(), " in ", options_.n_shards, " shards"),
                    collective);
}

void ShardReducer::begin_micro_step(bool last) {
  BORA_CHECK(sum_.n_added() < sum_.shards_here(), "ShardReducer: all ", sum_.shards_here(),
             " shards of this rank were added; call finish()");
  BORA_CHECK(last == (sum_.n_added() + 1 == sum_.shards_here()), "ShardReducer: shard ",
             sum_.n_added() + 1, " of the ", sum_.shards_here(), " of this rank is ",
             last ? "" : "not ", "said to be the last");
  for (Leaf* leaf : leaves_) leaf->clear_gradient();
}

void ShardReducer::end_micro_step() {
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (leaves_[i]->has_gradient()) {
      used_[i] = 1;
    } else {  // what the shard before left there must not count again
      gradients_.part(static_cast<int>(i)).fill(0.0);
    }
  }
  sum_.add(gradients_.all());
}

void ShardReducer::abandon() {
  sum_.abandon();
  std::fill(used_.begin(), used_.end(), 0);
}

void ShardReducer::finish() {
  const auto start = std::chrono::steady_clock::now();
  if (!options_.unused_as_zero) {
    std::vector<std::string> unused;
    for (size_t i = 0; i < leaves_.size(); ++i)
      if (!used_[i]) unused.push_back(gradients_.layout().range(static_cast<int>(i)).name);
    refuse_unused("ShardReducer", unused);
  }
  sum_.finish(gradients_.all(), ReduceOp::sum, "gradients, all shards");
  std::fill(used_.begin(), used_.end(), 0);
  ++counters_.windows;
  ++counters_.reductions;
  counters_.bytes += gradients_.all().bytes();
  counters_.wait_s +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace bora
