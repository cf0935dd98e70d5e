// SPDX-License-Identifier: Apache-2.0
#include "comm/operation.hpp"

#include <chrono>

namespace bora {
namespace {

// The limit itself is kept by the working thread; this much later the thread must be stuck inside
// MPI.
constexpr double kStuckMargin_s = 10.0;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

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

void Heartbeat::beat() { last_ns = now_ns(); }
double Heartbeat::silent_s() const { return static_cast<double>(now_ns() - last_ns) * 1e-9; }

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
  return describe_operation(kind, label, sequence, reduce_op, in.dtype(), count(), root);
}

bool Operation::done() {
  const std::lock_guard lock(mutex_);
  return done_;
}

void Operation::wait() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::seconds(1), [&] { return done_; })) {
    const double silent = heartbeat->silent_s();
    if (silent > heartbeat->limit_s + kStuckMargin_s)
      BORA_FAIL(describe(), ": the communication thread has been stuck inside MPI for ",
                static_cast<int64_t>(silent), " s");
  }
  if (!error_.empty()) throw Error(error_);
}

void Operation::finish() {
  const std::lock_guard lock(mutex_);
  done_ = true;
  in = out = Tensor();
  changed_.notify_all();
}

void Operation::fail(std::string message) {
  const std::lock_guard lock(mutex_);
  done_ = true;
  error_ = std::move(message);
  changed_.notify_all();
}

}  // namespace bora
