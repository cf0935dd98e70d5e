// SPDX-License-Identifier: Apache-2.0
// Who started this process: MPI's launcher, another one that sets variables, or nobody.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace bora {

/// Where ranks meet that were started without MPI, unless MASTER_PORT says otherwise.
inline constexpr int kDefaultMasterPort = 29500;

/// Where a launcher that is not MPI's has put this process, and where the ranks meet.
struct LaunchPlace {
  int rank = 0, size = 1;
  std::optional<int> local_rank;  ///< as the launcher says; only compared with what is found out
  std::string master_host;        ///< name or address of rank 0's host
  int master_port = kDefaultMasterPort;
  std::string token;      ///< the same for all ranks of a launch, and of no other; may be empty
  std::string interface;  ///< name or address of the network for data; empty: found out
  double limit_s = 60;    ///< longest wait for the others at the start
  int listener = -1;      ///< descriptor that listens at master_port already; rank 0 only
  std::string told_by;    ///< the variables that said so, for messages
};

namespace detail {

/// Looks a variable up; nullptr when not set.
using EnvironmentLookup = std::function<const char*(const char*)>;

/// What is wrong when MPI counts `world_size` ranks under these launcher variables; empty when
/// nothing is.  SLURM_NTASKS alone, as in a batch script without srun, is no launcher.
std::string launcher_fault(int world_size, const EnvironmentLookup& lookup);
/// Whether any launcher's variables are there.
bool has_launcher(const EnvironmentLookup& lookup);
/// Whether a launcher of MPI's has started this process, or srun in a way that this MPI
/// understands. `speaks_pmi`: srun's PMI-1 and PMI-2 are such ways; PMIx always is.
/// BORA_TRANSPORT=mpi or tcp decides without looking; another value is a UsageError.
bool has_mpi_launcher(const EnvironmentLookup& lookup, bool speaks_pmi);

/// The place by RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT (29500 unless set) and LOCAL_RANK, or
/// by srun's variables (SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS, SLURM_LOCALID, the node
/// list's first host; MASTER_ADDR and MASTER_PORT win); nothing where neither is there.  Throws
/// UsageError that names every variable that is missing or no number, or whose value cannot be.
std::optional<LaunchPlace> launch_place(const EnvironmentLookup& lookup);

/// Tasks of the srun step that this process belongs to; nothing outside a step.
std::optional<long long> slurm_step_tasks(const EnvironmentLookup& lookup);
/// The first host of Slurm's notation: "n[003-004,7],m1" is "n003".  Error if it is none.
std::string first_host(const std::string& nodelist);

}  // namespace detail
}  // namespace bora
