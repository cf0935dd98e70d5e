// SPDX-License-Identifier: Apache-2.0
#include "comm/operation_queue.hpp"

#include "comm/watchdog.hpp"
#include "core/error.hpp"

namespace bora {

OperationQueue::OperationQueue(std::function<void(Operation&)> work, bool threaded,
                               std::shared_ptr<Heartbeat> heartbeat,
                               std::shared_ptr<const RankGroup> group)
    : work_(std::move(work)), heartbeat_(std::move(heartbeat)), group_(std::move(group)) {
  Watchdog::instance().watch(heartbeat_);
  if (threaded) thread_ = std::thread([this] { run(); });
}

OperationQueue::~OperationQueue() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void OperationQueue::submit(std::shared_ptr<Operation> operation) {
  prepare(*operation, !thread_.joinable());
  if (!thread_.joinable()) {
    work_on(*operation);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(operation));
  }
  changed_.notify_all();
}

void OperationQueue::work_here(Operation& operation) {
  BORA_CHECK(n_pending() == 0, operation.describe(), ": ", n_pending(),
             " operations are pending, it must not overtake them");
  prepare(operation, true);
  work_on(operation);
}

void OperationQueue::prepare(Operation& operation, bool works_at_once) {
  operation.heartbeat = heartbeat_;
  operation.group = group_;
  operation.begin_record(works_at_once);
  if (heartbeat_->busy == 0) heartbeat_->beat();  // before anybody takes the silence for a fault
  ++heartbeat_->busy;
}

void OperationQueue::run() {
  for (;;) {
    std::shared_ptr<Operation> operation;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      operation = std::move(waiting_.front());
      waiting_.pop_front();
    }
    work_on(*operation);
  }
}

void OperationQueue::work_on(Operation& operation) {
  std::string error;
  try {
    if (broken_) {
      error = operation.describe() + ": not started, an earlier operation failed: " + broken_by_;
    } else {
      operation.record.arrived();
      work_(operation);
    }
  } catch (const AgreedError& e) {
    error = e.what();
    operation.record.failed(error);  // before the record is written
    error += Watchdog::instance().operation_failed(error, /*for_good=*/false);
  } catch (const std::exception& e) {
    error = e.what();
    operation.record.failed(error);  // before the record is written
    error += Watchdog::instance().operation_failed(error, /*for_good=*/true);
    broken_by_ = error;
    broken_ = true;
  }
  --heartbeat_->busy;  // before the waiting thread wakes up and looks at it
  if (error.empty()) {
    operation.finish();
  } else {
    operation.fail(error);
  }
}

}  // namespace bora
