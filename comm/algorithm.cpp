// SPDX-License-Identifier: Apache-2.0
#include "comm/algorithm.hpp"

namespace bora {
namespace {

// Between hosts.  Below the first size latency decides, and one exchange between all pairs has the
// fewest steps.  From the second size on the least traffic between hosts decides, and beyond this
// many ranks an exchange between all pairs meets too many peers at once.
constexpr int64_t kHierarchicalFrom = int64_t{64} << 10;
constexpr int64_t kRingFrom = int64_t{1} << 20;
constexpr int kExchangeRanks = 16;

}  // namespace

const std::vector<AllReduceAlgorithm>& all_reduce_algorithms() {
  using enum AllReduceAlgorithm;
  static const std::vector<AllReduceAlgorithm> all = {automatic, library,      exchange,
                                                      shared,    ring,         chunked_ring,
                                                      halving,   hierarchical, reproducible};
  return all;
}

std::string_view name_of(AllReduceAlgorithm algorithm) {
  switch (algorithm) {
    case AllReduceAlgorithm::automatic:
      return "auto";
    case AllReduceAlgorithm::library:
      return "library";
    case AllReduceAlgorithm::exchange:
      return "exchange";
    case AllReduceAlgorithm::shared:
      return "shared";
    case AllReduceAlgorithm::ring:
      return "ring";
    case AllReduceAlgorithm::chunked_ring:
      return "chunked_ring";
    case AllReduceAlgorithm::halving:
      return "halving";
    case AllReduceAlgorithm::hierarchical:
      return "hierarchical";
    case AllReduceAlgorithm::reproducible:
      return "reproducible";
  }
  return "?";
}

AllReduceAlgorithm all_reduce_algorithm(std::string_view name) {
  std::string names;
  for (const AllReduceAlgorithm a : all_reduce_algorithms()) {
    if (name_of(a) == name) return a;
    names += detail::join(names.empty() ? "" : ", ", name_of(a));
  }
  throw UsageError(
      detail::join("all-reduce algorithm '", name, "' is unknown; wants one of ", names));
}

namespace detail {

AllReduceAlgorithm choose_all_reduce(AllReduceAlgorithm setting, const RankPlaces& places,
                                     DType type, ReduceOp op, int64_t bytes) {
  using enum AllReduceAlgorithm;
  if (setting == reproducible || setting == exchange) return setting;
  // Algorithms that pass partial sums on would wrap a sum of small integers before the division.
  const bool partial_sums_do = is_float(type) || op != ReduceOp::mean;
  const bool one_host = places.n_hosts == 1 && places.shared_memory;
  if (one_host && (setting == automatic || setting == hierarchical)) return shared;
  if (setting == shared) return one_host ? shared : exchange;
  if (!partial_sums_do) return exchange;
  if (setting == hierarchical) return places.shared_memory ? hierarchical : chunked_ring;
  if (setting != automatic) return setting;
  if (places.shared_memory && places.n_hosts < places.n_ranks && bytes >= kHierarchicalFrom)
    return hierarchical;
  // Between hosts a large exchange was seen at half of what a link can carry both ways (MPI over
  // TCP sends and receives large messages in turn); pieces in a ring at 92 %.  Half types are
  // rounded at each step around a ring, so few ranks exchange them.
  const bool exact_enough = size_of(type) > 2 || places.n_ranks == 2;
  if (bytes >= kRingFrom && places.n_hosts > 1 && exact_enough) return chunked_ring;
  if (bytes >= kRingFrom && places.n_ranks > kExchangeRanks) return chunked_ring;
  return exchange;
}

}  // namespace detail
}  // namespace bora
