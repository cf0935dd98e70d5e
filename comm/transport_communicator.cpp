// SPDX-License-Identifier: Apache-2.0
#include "comm/transport_communicator.hpp"

#include "comm/arguments.hpp"
#include "comm/run_state.hpp"
#include "comm/watchdog.hpp"
#include "core/log.hpp"

#include <algorithm>
#include <exception>
#include <mutex>

namespace bora {
namespace {

// MPI may still write to the buffers of an operation that was given up, so they live to the end of
// the process (which is near: see mark_run_broken).
void keep_for_ever(std::shared_ptr<void> thing) {
  static std::mutex mutex;
  static auto* kept = new std::vector<std::shared_ptr<void>>;  // never destroyed, on purpose
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(thing));
}

}  // namespace

TransportCommunicator::TransportCommunicator(std::shared_ptr<Transport> transport, std::string host,
                                             const CommunicatorOptions& options,
                                             std::shared_ptr<const RankGroup> group)
    : host_(std::move(host)),
      group_(std::move(group)),
      options_(options),
      heartbeat_(std::make_shared<Heartbeat>()),
      engine_(std::make_unique<Engine>(std::move(transport), host_, options, heartbeat_)),
      exceptions_(std::uncaught_exceptions()) {
  heartbeat_->limit_s = options_.timeout_s;
  engine_->open_window();
  pairs_ =
      std::make_unique<PointToPoint>(engine_->transport(), host_, options_.message_bytes, group_);
  Engine* engine = engine_.get();
  queue_ = std::make_unique<OperationQueue>(
      [engine](Operation& op) {
        try {
          engine->execute(op);
        } catch (const AgreedError&) {
          throw;
        } catch (...) {
          mark_run_broken();
          keep_for_ever(std::make_shared<std::pair<Tensor, Tensor>>(op.in, op.out));
          throw;
        }
      },
      options_.threaded, heartbeat_, group_);
  if (group_->is_world()) board_ = engine_->make_board(*group_);
  if (board_) Watchdog::instance().add_board(board_);
}

TransportCommunicator::~TransportCommunicator() {
  if (std::uncaught_exceptions() > exceptions_ && queue_->n_pending() > 0) engine_->give_up();
  const bool broken_before = queue_->broken();
  queue_.reset();  // joins the thread
  if (board_) Watchdog::instance().drop_board(board_, !broken_before);
  pairs_.reset();
  if (broken_before || run_broken()) keep_for_ever(std::shared_ptr<Engine>(std::move(engine_)));
}

std::shared_ptr<Operation> TransportCommunicator::make(OperationKind kind, Tensor in,
                                                       std::string_view label) {
  auto operation = std::make_shared<Operation>();
  operation->kind = kind;
  operation->in = std::move(in);
  operation->label = label;
  return operation;
}

Work TransportCommunicator::submit(std::shared_ptr<Operation> operation) {
  operation->sequence = ++sequence_;
  queue_->submit(operation);
  return Work(std::move(operation));
}

void TransportCommunicator::run(std::shared_ptr<Operation> operation) {
  // MPI may block for ever, so what needs it (or TCP) is left to the other thread, which is
  // watched.
  if (queue_->n_pending() > 0 || !engine_->needs_no_messages(*operation))
    return submit(std::move(operation)).wait();
  operation->sequence = ++sequence_;
  operation->eager = true;
  queue_->work_here(*operation);
  operation->wait();
}

void TransportCommunicator::all_reduce(Tensor& x, ReduceOp op, std::string_view label) {
  check_tensor(*this, x, "all_reduce", label);
  auto operation = make(OperationKind::all_reduce, x, label);
  operation->reduce_op = op;
  run(std::move(operation));
}

Work TransportCommunicator::all_reduce_async(Tensor x, ReduceOp op, std::string_view label) {
  check_tensor(*this, x, "all_reduce", label);
  auto operation = make(OperationKind::all_reduce, std::move(x), label);
  operation->reduce_op = op;
  return submit(std::move(operation));
}

void TransportCommunicator::broadcast(Tensor& x, int root, std::string_view label) {
  check_tensor(*this, x, "broadcast", label);
  check_root(*this, root, "broadcast", label);
  auto operation = make(OperationKind::broadcast, x, label);
  operation->root = root;
  run(std::move(operation));
}

void TransportCommunicator::all_gather(const Tensor& x, Tensor& out, std::string_view label) {
  check_rows(*this, x, out, "all_gather", label);
  auto operation = make(OperationKind::all_gather, x, label);
  operation->out = out;
  run(std::move(operation));
}

void TransportCommunicator::gather(const Tensor& x, Tensor& out, int root, std::string_view label) {
  check_root(*this, root, "gather", label);
  check_tensor(*this, x, "gather", label);
  if (rank() == root) check_rows(*this, x, out, "gather", label);
  auto operation = make(OperationKind::gather, x, label);
  operation->root = root;
  if (rank() == root) operation->out = out;
  run(std::move(operation));
}

void TransportCommunicator::reduce(Tensor& x, int root, ReduceOp op, std::string_view label) {
  check_tensor(*this, x, "reduce", label);
  check_root(*this, root, "reduce", label);
  auto operation = make(OperationKind::reduce, x, label);
  operation->root = root;
  operation->reduce_op = op;
  run(std::move(operation));
}

void TransportCommunicator::reduce_scatter(const Tensor& x, Tensor& out, ReduceOp op,
                                           std::string_view label) {
  check_rows(*this, out, x, "reduce_scatter", label);
  auto operation = make(OperationKind::reduce_scatter, x, label);
  operation->out = out;
  operation->reduce_op = op;
  run(std::move(operation));
}

Work TransportCommunicator::send_async(Tensor x, int to, std::string_view label) {
  check_tensor(*this, x, "send", label);
  check_peer(*this, to, "send", label);
  return pairs_->send(std::move(x), to, label, engine_->timeout());
}

Work TransportCommunicator::receive_async(Tensor x, int from, std::string_view label) {
  check_tensor(*this, x, "receive", label);
  check_peer(*this, from, "receive", label);
  return pairs_->receive(std::move(x), from, label, engine_->timeout());
}

void TransportCommunicator::barrier(std::string_view label) {
  run(make(OperationKind::barrier, {}, label));
}

std::unique_ptr<Collective> TransportCommunicator::split(int color, int key) {
  BORA_CHECK(color >= 0, "split: color ", color, " is negative");
  // What all ask for travels with the meeting, so that everybody knows who is in which part.
  Tensor mine = Tensor::from<int64_t>({2}, {color, key});
  auto operation = make(OperationKind::split, mine, "split");
  operation->out = Tensor::empty({size(), 2}, DType::i64);
  const Tensor all = operation->out;
  run(operation);
  CommunicatorOptions options = options_;
  options.timeout_s = engine_->timeout();
  // The transport's split cannot be bounded by itself; but here all are known to be about to call
  // it.
  const WatchedCall call("opening a part", options.timeout_s, group_->name);
  std::shared_ptr<Transport> part = engine_->transport()->split(color, key);
  return std::make_unique<TransportCommunicator>(std::move(part), host_, options,
                                                 part_of_group(all, color));
}

std::shared_ptr<const RankGroup> TransportCommunicator::part_of_group(const Tensor& colors_and_keys,
                                                                      int color) const {
  const int64_t* asked = colors_and_keys.data<int64_t>();
  std::vector<int> members;
  for (int r = 0; r < size(); ++r)
    if (asked[2 * r] == color) members.push_back(r);
  std::stable_sort(members.begin(), members.end(),
                   [&](int a, int b) { return asked[2 * a + 1] < asked[2 * b + 1]; });
  // The number of the split, since the same colors may be asked for again.
  return group_->part(detail::join(group_->name, "/split ", sequence_, " color ", color), members);
}

Tensor TransportCommunicator::make_shared_tensor(int64_t bytes) {
  BORA_CHECK(bytes >= 0, "make_shared_tensor: ", bytes, " bytes");
  // Their sizes must be the same, and the engine must be idle.
  run(make(OperationKind::barrier, {}, detail::join("make_shared_tensor of ", bytes, " bytes")));
  const std::shared_ptr<SharedSegment> arena = engine_->make_arena(bytes);
  if (!arena) return Tensor::zeros({bytes}, DType::u8);
  return Tensor::wrap(arena->part(rank()), {bytes}, DType::u8, cpu(), [arena] {});
}

void TransportCommunicator::set_timeout(double seconds) {
  BORA_CHECK(seconds > 0, "set_timeout: wants more than 0 seconds, got ", seconds);
  heartbeat_->limit_s = seconds;
  engine_->set_timeout(seconds);
}

}  // namespace bora
