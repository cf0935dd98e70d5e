// SPDX-License-Identifier: Apache-2.0
#include "comm/rank_group.hpp"

#include "core/error.hpp"

#include <mutex>
#include <numeric>

namespace bora {
namespace {

std::mutex g_mutex;

std::shared_ptr<const RankGroup>& the_world() {
  static auto* world = new std::shared_ptr<const RankGroup>(std::make_shared<RankGroup>());
  return *world;
}

}  // namespace

int RankGroup::world_rank(int rank) const {
  const auto i = static_cast<size_t>(rank);
  return rank >= 0 && i < world_ranks.size() ? world_ranks[i] : -1;
}

std::string RankGroup::who(int rank) const {
  std::string text = detail::join("rank ", rank);
  const auto i = static_cast<size_t>(rank);
  if (!is_world() && i < world_ranks.size())
    text += detail::join(" (world rank ", world_ranks[i], ")");
  if (i < hosts.size()) text += detail::join(" on host ", hosts[i]);
  return text;
}

std::shared_ptr<const RankGroup> RankGroup::world() {
  const std::lock_guard lock(g_mutex);
  return the_world();
}

void RankGroup::set_world(std::vector<std::string> hosts) {
  auto world = std::make_shared<RankGroup>();
  world->world_ranks.resize(hosts.size());
  std::iota(world->world_ranks.begin(), world->world_ranks.end(), 0);
  world->hosts = std::move(hosts);
  const std::lock_guard lock(g_mutex);
  the_world() = std::move(world);
}

std::shared_ptr<const RankGroup> RankGroup::part(std::string part_name,
                                                 const std::vector<int>& members) const {
  auto group = std::make_shared<RankGroup>();
  group->name = std::move(part_name);
  for (const int r : members) {
    const auto i = static_cast<size_t>(r);
    if (i < world_ranks.size()) group->world_ranks.push_back(world_ranks[i]);
    if (i < hosts.size()) group->hosts.push_back(hosts[i]);
  }
  return group;
}

std::string rank_list(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last == i + 1) last = i;  // "1, 2" reads better than "1-2"
    text += detail::join(text.empty() ? "" : ", ", ranks[i]);
    if (last > i) text += detail::join("-", ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace bora
