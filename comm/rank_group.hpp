// SPDX-License-Identifier: Apache-2.0
// RankGroup: who the ranks of a communicator are, for messages.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace bora {

/// The name of a communicator and its ranks as the world knows them.
struct RankGroup {
  std::string name = "world";
  std::vector<int> world_ranks;    ///< by rank of the group; empty: not known
  std::vector<std::string> hosts;  ///< by rank of the group; empty: not known

  bool is_world() const { return name == "world"; }
  /// Of a rank of the group; -1 if not known.
  int world_rank(int rank) const;
  /// "rank 1 on host node7"; in a split group "rank 1 (world rank 5) on host node7".
  std::string who(int rank) const;

  /// The whole world.  Set once at the start, when all hosts are known.
  static std::shared_ptr<const RankGroup> world();
  static void set_world(std::vector<std::string> hosts);
  /// The part of this group that consists of its ranks `members`.
  std::shared_ptr<const RankGroup> part(std::string part_name,
                                        const std::vector<int>& members) const;
};

/// "0, 3-7, 9" for ascending ranks.
std::string rank_list(const std::vector<int>& ranks);

}  // namespace bora
