// SPDX-License-Identifier: Apache-2.0
#include "comm/communicator.hpp"

#include "comm/mpi_transport.hpp"
#include "comm/run_state.hpp"
#include "comm/transport_communicator.hpp"
#include "core/log.hpp"

namespace bora {
namespace {

// Returns when all ranks of the world are here; names those that stay away.
void meet(const Session& session, const CommunicatorOptions& options) {
  auto heartbeat = std::make_shared<Heartbeat>();
  Engine engine(session.world(), session.host(), options, heartbeat);
  engine.set_timeout(options.first_timeout_s);
  heartbeat->limit_s = options.first_timeout_s;
  OperationQueue queue([&](Operation& op) { engine.execute(op); }, /*threaded=*/false, heartbeat,
                       RankGroup::world());
  const auto barrier = std::make_shared<Operation>();
  barrier->label = "start";
  barrier->sequence = 1;
  queue.work_here(*barrier);
  if (queue.broken()) mark_run_broken();
  barrier->wait();
}

}  // namespace

std::unique_ptr<Collective> make_communicator(const Session& session,
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
  if (options.all_reduce == AllReduceAlgorithm::library &&
      dynamic_cast<const MpiTransport*>(session.world().get()) == nullptr)
    throw UsageError(
        detail::join("all-reduction by library is MPI's own, but these ranks speak by ",
                     session.transport_name(), "; start them by mpirun, or use auto"));
  CommunicatorOptions used = options;
  if (used.threaded && session.thread_level() != ThreadLevel::multiple) {
    used.threaded = false;
    if (session.rank() == 0)
      log_warn("MPI does not allow several threads: reductions will not overlap with computation");
  }
  set_wait_limit(used.timeout_s);
  meet(session, used);
  // One of its own, so that communicators never meet each other's messages.
  const WatchedCall call("opening", used.first_timeout_s, "start");
  std::shared_ptr<Transport> transport = session.world()->split(0, session.rank());
  return std::make_unique<TransportCommunicator>(std::move(transport), session.host(), used);
}

void set_timeout(Collective& communicator, double seconds) {
  BORA_CHECK(seconds > 0, "set_timeout: wants more than 0 seconds, got ", seconds);
  if (auto* mpi = dynamic_cast<TransportCommunicator*>(&communicator)) mpi->set_timeout(seconds);
  set_wait_limit(seconds);
}

Tensor make_shared_tensor(Collective& communicator, int64_t bytes) {
  if (auto* mpi = dynamic_cast<TransportCommunicator*>(&communicator))
    return mpi->make_shared_tensor(bytes);
  BORA_CHECK(bytes >= 0, "make_shared_tensor: ", bytes, " bytes");
  return Tensor::zeros({bytes}, DType::u8);
}

int64_t bytes_sent(const Collective& communicator) {
  const auto* mpi = dynamic_cast<const TransportCommunicator*>(&communicator);
  return mpi != nullptr ? mpi->bytes_sent() : 0;
}

}  // namespace bora
