// SPDX-License-Identifier: Apache-2.0
#include "comm/host_group.hpp"

#include <algorithm>

namespace bora {

HostGroup::HostGroup(MPI_Comm comm, int ranks_per_host) {
  int rank = 0, size = 1;
  BORA_MPI(MPI_Comm_rank(comm, &rank));
  BORA_MPI(MPI_Comm_size(comm, &size));
  BORA_MPI(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &comm_));
  if (ranks_per_host > 0) {
    MPI_Comm whole = comm_;
    int at = 0;
    BORA_MPI(MPI_Comm_rank(whole, &at));
    BORA_MPI(MPI_Comm_split(whole, at / ranks_per_host, at, &comm_));
    BORA_MPI(MPI_Comm_free(&whole));
  }
  BORA_MPI(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
  BORA_MPI(MPI_Comm_rank(comm_, &index_));
  int leader = rank;
  BORA_MPI(MPI_Bcast(&leader, 1, MPI_INT, 0, comm_));
  std::vector<int> leader_of(static_cast<size_t>(size));
  BORA_MPI(MPI_Allgather(&leader, 1, MPI_INT, leader_of.data(), 1, MPI_INT, comm));
  for (int r = 0; r < size; ++r)
    if (leader_of[static_cast<size_t>(r)] == leader) members_.push_back(r);
  leaders_ = leader_of;
  std::sort(leaders_.begin(), leaders_.end());
  leaders_.erase(std::unique(leaders_.begin(), leaders_.end()), leaders_.end());
}

HostGroup::~HostGroup() { BORA_MPI_WARN(MPI_Comm_free(&comm_)); }

}  // namespace bora
