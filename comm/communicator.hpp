// SPDX-License-Identifier: Apache-2.0
// Communicators: the implementations of Collective for host memory.
#pragma once

#include "comm/algorithm.hpp"
#include "comm/mpi.hpp"
#include "core/collective.hpp"

#include <cstdint>
#include <memory>

namespace bora {

struct CommunicatorOptions {
  /// Longest wait of one operation for the other ranks, seconds; then it throws.  Also the longest
  /// wait at the end of the run (Session::conclude).
  double timeout_s = kDefaultWaitLimit_s;
  /// The same for the first operation, the meeting at the start.
  double first_timeout_s = 60.0;
  /// Work in a thread of its own, so that operations go on while this one computes.  Without it, or
  /// if MPI does not allow threads, operations run when they are called.
  bool threaded = true;
  /// Largest message handed to MPI or TCP, bytes.  MPI counts in int; larger data goes in pieces.
  int64_t message_bytes = int64_t{1} << 30;
  /// Reductions work through the data in pieces of this many bytes: the size of the staging buffer.
  int64_t segment_bytes = int64_t{32} << 20;
  /// All-reductions up to this size send everything to everybody: one exchange instead of two.
  int64_t direct_bytes = int64_t{16} << 10;
  /// Which way all-reductions go; the same on all ranks.
  AllReduceAlgorithm all_reduce = AllReduceAlgorithm::automatic;
  /// Memory shared by the ranks of a host (in /dev/shm, three stages of this size for each rank).
  /// 0: none, everything goes by messages.  Measured: between two cores larger stages are faster up
  /// to some MB, since lines that have left the writer's cache are read faster than those in it.
  int64_t stage_bytes = int64_t{1} << 20;
  /// Largest piece of a chunked ring, bytes.
  int64_t ring_piece_bytes = int64_t{256} << 10;
  /// Takes so many consecutive ranks of a host for a host of their own; 0: hosts as they are.  For
  /// trying out what is done between hosts, and for one group a socket.
  int ranks_per_host = 0;
};

/// All ranks of the session: the Self communicator when there is one, else one over MPI or TCP.
/// Collective: every rank calls it, and it returns when all have; if one stays away the others
/// throw after first_timeout_s and name it.  CPU tensors only: a CUDA tensor is an error.
std::unique_ptr<Collective> make_communicator(const Session& session,
                                              const CommunicatorOptions& options = {});

/// Memory in which a communicator's all-reductions need no copies, (bytes) u8, zero at first: views
/// of it may be handed to all_reduce (the same part of it on all ranks is usual, not required).
/// Collective.  Ordinary memory where the ranks do not all share a host; a warning says so where
/// they do but the system gives no more shared memory.  Lives until the last
/// tensor that views it and the communicator are gone; known to `communicator` alone.
Tensor make_shared_tensor(Collective& communicator, int64_t bytes);

/// Bytes of data that this rank has sent to others point to point since the communicator was made:
/// not records, not what goes through shared memory or MPI's own collectives.
int64_t bytes_sent(const Collective& communicator);

/// A group of one rank for tensors on that kind of device: every operation is done at once, with
/// all the checks.
std::unique_ptr<Collective> make_self_communicator(DeviceType type = DeviceType::cpu);

/// Changes the time limit of later operations of a communicator made here (and of groups split off
/// from it later), and of the wait at the end of the run.
void set_timeout(Collective& communicator, double seconds);

}  // namespace bora
