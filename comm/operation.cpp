// SPDX-License-Identifier: Apache-2.0
#include "comm/operation.hpp"

#include "comm/watchdog.hpp"

#include <chrono>

namespace bora {
namespace {

// While nothing happens, a waiting thread asks the watchdog this often.
constexpr std::chrono::milliseconds kAskEvery{500};

}  // namespace

std::string_view name_of(OperationKind kind) {
  switch (kind) {
    case OperationKind::all_reduce:
      return "all_reduce";
    case OperationKind::broadcast:
      return "broadcast";
    case OperationKind::all_gather:
      return "all_gather";
    case OperationKind::gather:
      return "gather";
    case OperationKind::reduce:
      return "reduce";
    case OperationKind::reduce_scatter:
      return "reduce_scatter";
    case OperationKind::barrier:
      return "barrier";
    case OperationKind::split:
      return "split";
  }
  return "?";
}

void Heartbeat::beat() { last_ns = steady_now_ns(); }

std::string describe_operation(OperationKind kind, std::string_view label, uint64_t sequence,
                               ReduceOp reduce_op, DType type, int64_t count, int root) {
  std::string text = detail::join(name_of(kind), " '", label, "' #", sequence);
  if (kind == OperationKind::barrier || kind == OperationKind::split) return text;
  text += " (";
  if (kind == OperationKind::all_reduce || kind == OperationKind::reduce ||
      kind == OperationKind::reduce_scatter)
    text += detail::join(name_of(reduce_op), ", ");
  text += detail::join(type, ", ", count, count == 1 ? " element" : " elements");
  if (root >= 0) text += detail::join(", root ", root);
  return text + ")";
}

std::string Operation::describe() const {
  std::string text =
      describe_operation(kind, label, sequence, reduce_op, in.dtype(), count(), root);
  if (group && !group->is_world()) text += " of " + group->name;
  return text;
}

std::string Operation::who(int rank) const {
  return group ? group->who(rank) : detail::join("rank ", rank);
}

void Operation::begin_record(bool arrived) {
  record = FlightRecorder::instance().begin({
      .operation = name_of(kind),
      .group = group ? std::string_view(group->name) : "world",
      .label = label,
      .sequence = sequence,
      .count = kind == OperationKind::barrier || kind == OperationKind::split ? -1 : count(),
      .type = in.dtype(),
      .peer = root,
      .arrived = arrived,
  });
}

bool Operation::done() {
  const std::lock_guard lock(mutex_);
  return done_;
}

void Operation::wait() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kAskEvery, [&] { return done_; })) {
    lock.unlock();
    const std::string verdict = Watchdog::instance().verdict();
    lock.lock();
    if (!verdict.empty() && !done_) BORA_FAIL(describe(), ": given up: ", verdict);
  }
  if (!error_.empty()) throw Error(error_);
}

void Operation::finish() {
  const std::lock_guard lock(mutex_);
  done_ = true;
  in = out = Tensor();
  record.done();
  changed_.notify_all();
}

void Operation::fail(std::string message) {
  const std::lock_guard lock(mutex_);
  done_ = true;
  error_ = std::move(message);
  record.failed(error_);
  changed_.notify_all();
}

}  // namespace bora
