// SPDX-License-Identifier: Apache-2.0
#include "comm/host_group.hpp"

#include <algorithm>

namespace bora {

HostGroup::HostGroup(Transport& transport, int ranks_per_host) {
  const int rank = transport.rank();
  std::vector<int> leader_of = transport.lowest_on_host();
  if (ranks_per_host > 0) {
    const std::vector<int> lowest = leader_of;
    for (size_t r = 0; r < lowest.size(); ++r) {
      // Those of the host before it, then the first of its part.
      const auto begin = lowest.begin(), here = begin + static_cast<std::ptrdiff_t>(r);
      auto at = std::count(begin, here, lowest[r]) / ranks_per_host * ranks_per_host;
      auto first = begin;
      while (*first != lowest[r] || at-- > 0) ++first;
      leader_of[r] = static_cast<int>(first - begin);
    }
  }
  const int leader = leader_of[static_cast<size_t>(rank)];
  for (int r = 0; r < transport.size(); ++r)
    if (leader_of[static_cast<size_t>(r)] == leader) members_.push_back(r);
  index_ = static_cast<int>(std::find(members_.begin(), members_.end(), rank) - members_.begin());
  leaders_ = leader_of;
  std::sort(leaders_.begin(), leaders_.end());
  leaders_.erase(std::unique(leaders_.begin(), leaders_.end()), leaders_.end());
  transport_ = transport.split(leader, rank);
}

}  // namespace bora
