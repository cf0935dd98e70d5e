// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: one NCCL communicator, its operations under way, and how it ends.
#pragma once

#include "comm/nccl_communicator.hpp"
#include "comm/nccl_log.hpp"
#include "comm/nccl_stream.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>

namespace bora {

class NcclEngine;

/// One operation under way.  What wait() means is the communicator's NcclWait.
class NcclOperation final : public Work::State {
 public:
  bool done() override;
  void wait() override;

 private:
  friend class NcclEngine;
  std::shared_ptr<NcclEngine> engine_;
  NcclNote note_;
  NcclEvent ready_, done_;  // on the compute stream before it, on the communication stream after it
  // The rest is guarded by the engine's lock.
  std::vector<Tensor> tensors_;  // not to be freed before it is done
  double arrived_s_ = -1;        // when it was first seen that only NCCL is waited for
  bool finished_ = false;
};

/// Owns an ncclComm_t.  Operations are issued by one thread; poll() and abort() may be called by
/// any. After the first failure everything throws that failure.
class NcclEngine : public std::enable_shared_from_this<NcclEngine> {
 public:
  using Enqueue = std::function<ncclResult_t(ncclComm_t, cudaStream_t)>;
  /// Starts a communicator: calls NCCL, which may answer "in progress".
  using Start = std::function<ncclResult_t(ncclComm_t*, ncclConfig_t*)>;

  /// `who` ("rank 3 (node1, device 3)") and `place` ("node1, device 3") are for messages.
  NcclEngine(std::shared_ptr<NcclStream> stream, const NcclOptions& options, std::string who,
             std::string place, std::shared_ptr<NcclInquest> inquest);
  ~NcclEngine();

  /// Runs `start` and waits until the communicator is ready; throws after the limit, or with what
  /// NCCL says.
  void start(const Start& start, double limit_s);
  /// The same for a part of another communicator.
  void start_split(NcclEngine& parent, int color, int key, double limit_s);
  /// Begins to watch: from now on operations that are too old end the communicator.
  void watch();

  IssueLog& log() { return log_; }
  NcclStream& stream() { return *stream_; }
  const std::shared_ptr<NcclStream>& shared_stream() const { return stream_; }
  const std::string& who() const { return who_; }
  const std::string& place() const { return place_; }

  /// Puts an operation behind the compute stream's work so far.  `note` without an id.
  std::shared_ptr<NcclOperation> issue(NcclNote note, std::vector<Tensor> tensors,
                                       const Enqueue& enqueue);

  /// Retires what is done; ends the communicator if NCCL reports an error, or if an operation has
  /// been waiting for the other ranks for longer than its limit.  Never throws.
  void poll() noexcept;
  /// Blocks the host until all that was issued is done; throws the failure if there is one.
  void drain();
  /// Ends the communicator now, for this reason.  Does nothing after a failure.
  void abort(const std::string& reason) noexcept { fail(reason, Inquire::no); }
  /// Waits until all ranks have done all operations, frees the communicator.  Aborts it instead
  /// when that takes longer than the limit.
  void finalise(double limit_s) noexcept;
  void throw_if_failed() const;
  bool failed() const { return failed_; }
  std::string failure() const;

 private:
  friend class NcclOperation;
  enum class Inquire { no, yes };
  ncclConfig_t config() const;
  void become_ready(ncclResult_t code, double limit_s);
  void fail(const std::string& reason, Inquire inquire) noexcept;
  void abort_native() noexcept;
  ncclResult_t state();  // of the communicator, asynchronous errors included
  ncclResult_t settle(ncclResult_t code, double limit_s, const char* what);
  /// The lock, or none after so long: abort() must not wait for a thread that hangs inside NCCL.
  std::unique_lock<std::mutex> lock_within(double seconds) const;
  ncclResult_t call(const Enqueue& enqueue, double limit_s);
  std::string poll_locked();
  static std::string nccl_text(ncclResult_t code);
  void forget_operations() noexcept;
  void stop_watching() noexcept;
  std::string head() const;

  std::shared_ptr<NcclStream> stream_;
  NcclOptions options_;
  std::string who_, place_;
  std::shared_ptr<NcclInquest> inquest_;
  IssueLog log_;

  // Held for single NCCL calls and looks at the list.
  mutable std::mutex mutex_;
  ncclComm_t comm_ = nullptr;
  std::deque<std::shared_ptr<NcclOperation>> under_way_;
  uint64_t n_issued_ = 0, completed_ = 0;
  // The call that is inside NCCL: begin (negative: none) and limit.
  std::atomic<double> call_since_s_{-1}, call_limit_s_{0};

  std::atomic<bool> failing_{false}, failed_{false}, gone_{false};
  mutable std::mutex failure_mutex_;
  std::string failure_;

  std::mutex watch_mutex_;
  std::condition_variable watch_changed_;
  bool stop_ = false;
  std::thread watcher_;
};

}  // namespace bora
