// SPDX-License-Identifier: Apache-2.0
// Which way an all-reduction goes: names, and the choice by size and place of the ranks.
#pragma once

#include "core/collective.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bora {

/// Ways of an all-reduction.  All are deterministic: the same bits on every rank and in every run
/// with the same number of ranks on the same hosts.  They differ in the order of sums, and so in
/// the last bits; docs/collectives.md says more.
enum class AllReduceAlgorithm : uint8_t {
  automatic,     ///< "auto": by size, type and where the ranks are
  library,       ///< MPI's own; the order is MPI's
  exchange,      ///< slices between all pairs of ranks; rank order
  shared,        ///< through memory that the ranks of one host share; rank order
  ring,          ///< reduce-scatter and all-gather between neighbours
  chunked_ring,  ///< the same in pieces, so that sending, receiving and adding overlap
  halving,       ///< recursive halving, then recursive doubling
  hierarchical,  ///< shared memory inside each host, a chunked ring between one rank of each
  reproducible,  ///< as shared or exchange, but sums in a binary tree: see comm/shard_sum.hpp
};

/// "auto", "library", "exchange", "shared", "ring", "chunked_ring", "halving", "hierarchical",
/// "reproducible".
std::string_view name_of(AllReduceAlgorithm algorithm);
const std::vector<AllReduceAlgorithm>& all_reduce_algorithms();
/// The algorithm of that name; UsageError that lists the names if there is none.
AllReduceAlgorithm all_reduce_algorithm(std::string_view name);

namespace detail {

/// Where the ranks of a communicator are; equal on all of them.
struct RankPlaces {
  int n_ranks = 1;
  int n_hosts = 1;
  bool shared_memory = false;  ///< every host's ranks have a window of shared memory
};

/// What is really done for `bytes` of a type under a setting: never `automatic`, nor `shared` or
/// `hierarchical` without shared memory.  A pure function of values that are equal on all ranks.
AllReduceAlgorithm choose_all_reduce(AllReduceAlgorithm setting, const RankPlaces& places,
                                     DType type, ReduceOp op, int64_t bytes);

}  // namespace detail
}  // namespace bora
