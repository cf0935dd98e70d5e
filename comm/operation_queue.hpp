// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: operations are worked on one at a time, in the order they were submitted.
#pragma once

#include "comm/operation.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace bora {

/// An error after which the communicator can still be used: all ranks have it and nothing was sent.
struct AgreedError : Error {
  using Error::Error;
};

/// FIFO with one thread (none when `threaded` is false: submit() then works at once).  An empty
/// queue costs no CPU time.  After an error other than AgreedError every later operation fails with
/// the same message.  Every operation is noted in the flight recorder, under the group's name, and
/// the watchdog listens to the heartbeat.
class OperationQueue {
 public:
  OperationQueue(std::function<void(Operation&)> work, bool threaded,
                 std::shared_ptr<Heartbeat> heartbeat,
                 std::shared_ptr<const RankGroup> group = nullptr);
  /// Finishes what was submitted, then stops.
  ~OperationQueue();

  void submit(std::shared_ptr<Operation> operation);
  /// Works on the operation in the calling thread; only when nothing is pending, and by the thread
  /// that submits.  Saves the way to the other thread and back, 20 us and more.
  void work_here(Operation& operation);
  /// Operations submitted and not done.
  int64_t n_pending() const { return heartbeat_->busy; }
  /// Whether an error has made the communicator unusable.
  bool broken() const { return broken_; }

 private:
  void run();
  void prepare(Operation& operation, bool works_at_once);
  void work_on(Operation& operation);

  std::function<void(Operation&)> work_;
  std::shared_ptr<Heartbeat> heartbeat_;
  std::shared_ptr<const RankGroup> group_;
  std::atomic<bool> broken_{false};
  std::string broken_by_;  // only the working thread touches it
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Operation>> waiting_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace bora
