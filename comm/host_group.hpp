// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: which ranks of a communicator share this host's memory.
#pragma once

#include "comm/transport.hpp"

#include <vector>

namespace bora {

/// The ranks of one host, and one leader (the lowest rank) of every host.  Ranks are counted in the
/// transport that the group was made from.
class HostGroup {
 public:
  /// Collective over `transport`; all its ranks must be known to be there.  `ranks_per_host` > 0
  /// takes so many consecutive ranks of a host for a host of their own.
  HostGroup(Transport& transport, int ranks_per_host);

  const std::vector<int>& members() const { return members_; }  ///< ascending, this rank is in it
  const std::vector<int>& leaders() const { return leaders_; }  ///< ascending
  int index() const { return index_; }                          ///< of this rank in members()
  int size() const { return static_cast<int>(members_.size()); }
  bool is_leader() const { return index_ == 0; }
  int n_hosts() const { return static_cast<int>(leaders_.size()); }
  /// The members alone, in the same order.
  Transport& transport() const { return *transport_; }

 private:
  std::unique_ptr<Transport> transport_;
  std::vector<int> members_, leaders_;
  int index_ = 0;
};

}  // namespace bora
