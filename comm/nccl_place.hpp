// SPDX-License-Identifier: Apache-2.0
// Which device a rank takes, and whether all ranks' choices fit together.  Pure functions: no CUDA.
#pragma once

#include "comm/mpi.hpp"

#include <string>
#include <vector>

namespace bora {

/// Where a rank is among those of its host.
struct NcclPlace {
  int local_rank = 0;
  int local_size = 1;
  std::string host;
};

/// By MPI, never by environment variables.
inline NcclPlace nccl_place(const MpiSession& session) {
  return {session.local_rank(), session.local_size(), session.host()};
}

/// Index of the device for a rank, among the devices that the process sees.  If the scheduler shows
/// each process one device that is index 0; else the local rank, never the global one.  What
/// CUDA_VISIBLE_DEVICES says is the driver's business and not looked at.  Throws UsageError, with
/// ranks per host, devices and what to set, when there is no device, when local_rank is not one of
/// local_size (a global rank, perhaps), or when it is beyond the visible devices.
int device_for(int local_rank, int local_size, int n_visible);

/// The same where the user lists devices: an empty list leaves the choice to device_for, one index
/// is taken as it is.  Throws UsageError for more than one (one process drives one device) and for
/// an index that is not visible.
int device_for(const std::vector<int>& wanted, const NcclPlace& place, int n_visible);

/// What one rank tells all others before NCCL is started.
struct DeviceClaim {
  int rank = 0;
  std::string host;
  int device = 0;
  std::string uuid;     ///< of the device, as the driver prints it
  std::string name;     ///< of the device
  std::string version;  ///< of NCCL and the CUDA runtime

  /// One line of text, for Collective::all_gather_text, and back.
  std::string text() const;
  static DeviceClaim from_text(const std::string& text);
};

/// What is wrong with the claims of all ranks: two ranks of one host on one device (both ranks, the
/// host and the device's UUID are named), or versions that differ (with the ranks that have each).
/// Empty when nothing is.
std::string claims_fault(const std::vector<DeviceClaim>& claims);

/// "NCCL 2.28.9, CUDA 13.0; 8 ranks on 2 hosts: node1: rank 0 -> 0 (NVIDIA H200), ..."
std::string claims_summary(const std::vector<DeviceClaim>& claims);

}  // namespace bora
