// SPDX-License-Identifier: Apache-2.0
#include "comm/communicator.hpp"

#include "comm/mpi_communicator.hpp"
#include "comm/mpi_status.hpp"
#include "core/log.hpp"

namespace bora {
namespace {

// Returns when all ranks of the world are here; names those that stay away.
void meet(const MpiSession& session, const CommunicatorOptions& options) {
  auto heartbeat = std::make_shared<Heartbeat>();
  MpiEngine engine(MPI_COMM_WORLD, /*owned=*/false, session.host(), options, heartbeat);
  engine.set_timeout(options.first_timeout_s);
  heartbeat->limit_s = options.first_timeout_s;
  OperationQueue queue([&](Operation& op) { engine.execute(op); }, /*threaded=*/false, heartbeat,
                       RankGroup::world());
  const auto barrier = std::make_shared<Operation>();
  barrier->label = "start";
  barrier->sequence = 1;
  queue.work_here(*barrier);
  if (queue.broken()) mark_mpi_broken();
  barrier->wait();
}

}  // namespace

std::unique_ptr<Collective> make_communicator(const MpiSession& session,
                                              const CommunicatorOptions& options) {
  BORA_CHECK(options.timeout_s > 0 && options.first_timeout_s > 0,
             "make_communicator: time limits must be positive, got ", options.timeout_s, " and ",
             options.first_timeout_s, " s");
  BORA_CHECK(options.message_bytes > 0 && options.message_bytes <= INT32_MAX &&
                 options.segment_bytes > 0 && options.direct_bytes >= 0 &&
                 options.direct_bytes <= INT32_MAX,
             "make_communicator: message_bytes ", options.message_bytes, ", segment_bytes ",
             options.segment_bytes, ", direct_bytes ", options.direct_bytes,
             ": wants positive values, messages below 2^31");
  BORA_CHECK(options.stage_bytes >= 0 && options.stage_bytes <= INT32_MAX &&
                 options.ring_piece_bytes > 0 && options.ranks_per_host >= 0,
             "make_communicator: stage_bytes ", options.stage_bytes, ", ring_piece_bytes ",
             options.ring_piece_bytes, ", ranks_per_host ", options.ranks_per_host,
             ": wants no negative values, a stage below 2^31, a positive piece");
  if (session.size() == 1) return make_self_communicator();
  CommunicatorOptions used = options;
  if (used.threaded && session.thread_level() != ThreadLevel::multiple) {
    used.threaded = false;
    if (session.rank() == 0)
      log_warn("MPI does not allow several threads: reductions will not overlap with computation");
  }
  set_mpi_wait_limit(used.timeout_s);
  meet(session, used);
  const WatchedCall call("MPI_Comm_dup", used.first_timeout_s, "start");
  MPI_Comm comm = MPI_COMM_NULL;
  BORA_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));  // cannot be bounded, but all are here
  return std::make_unique<MpiCommunicator>(comm, session.host(), used);
}

void set_timeout(Collective& communicator, double seconds) {
  BORA_CHECK(seconds > 0, "set_timeout: wants more than 0 seconds, got ", seconds);
  if (auto* mpi = dynamic_cast<MpiCommunicator*>(&communicator)) mpi->set_timeout(seconds);
  set_mpi_wait_limit(seconds);
}

Tensor make_shared_tensor(Collective& communicator, int64_t bytes) {
  if (auto* mpi = dynamic_cast<MpiCommunicator*>(&communicator))
    return mpi->make_shared_tensor(bytes);
  BORA_CHECK(bytes >= 0, "make_shared_tensor: ", bytes, " bytes");
  return Tensor::zeros({bytes}, DType::u8);
}

int64_t bytes_sent(const Collective& communicator) {
  const auto* mpi = dynamic_cast<const MpiCommunicator*>(&communicator);
  return mpi != nullptr ? mpi->bytes_sent() : 0;
}

}  // namespace bora
