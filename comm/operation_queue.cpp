// SPDX-License-Identifier: Apache-2.0
#include "comm/operation_queue.hpp"

#include "core/error.hpp"

namespace bora {

OperationQueue::OperationQueue(std::function<void(Operation&)> work, bool threaded,
                               std::shared_ptr<Heartbeat> heartbeat)
    : work_(std::move(work)), heartbeat_(std::move(heartbeat)) {
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
  operation->heartbeat = heartbeat_;
  if (n_pending_++ == 0) heartbeat_->beat();
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
  BORA_CHECK(n_pending_ == 0, operation.describe(), ": ", n_pending_.load(),
             " operations are pending, it must not overtake them");
  operation.heartbeat = heartbeat_;
  ++n_pending_;
  heartbeat_->beat();
  work_on(operation);
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
      work_(operation);
    }
  } catch (const AgreedError& e) {
    error = e.what();
  } catch (const std::exception& e) {
    error = broken_by_ = e.what();
    broken_ = true;
  }
  --n_pending_;  // before the waiting thread wakes up and looks at it
  if (error.empty()) {
    operation.finish();
  } else {
    operation.fail(error);
  }
}

}  // namespace bora
