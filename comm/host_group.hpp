// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: which ranks of a communicator share this host's memory.
#pragma once

#include "comm/mpi_status.hpp"

#include <vector>

namespace bora {

/// The ranks of one host, and one leader (the lowest rank) of every host.  Ranks are counted in the
/// communicator that the group was made from.
class HostGroup {
 public:
  /// Collective over `comm`; all its ranks must be known to be there.  `ranks_per_host` > 0 takes
  /// so many consecutive ranks of a host for a host of their own.
  HostGroup(MPI_Comm comm, int ranks_per_host);
  ~HostGroup();
  HostGroup(const HostGroup&) = delete;
  HostGroup& operator=(const HostGroup&) = delete;

  const std::vector<int>& members() const { return members_; }  ///< ascending, this rank is in it
  const std::vector<int>& leaders() const { return leaders_; }  ///< ascending
  int index() const { return index_; }                          ///< of this rank in members()
  int size() const { return static_cast<int>(members_.size()); }
  bool is_leader() const { return index_ == 0; }
  int n_hosts() const { return static_cast<int>(leaders_.size()); }
  /// The members alone, in the same order.
  MPI_Comm comm() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<int> members_, leaders_;
  int index_ = 0;
};

}  // namespace bora
