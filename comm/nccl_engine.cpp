// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl_engine.hpp"

#include "comm/watchdog.hpp"

#include <algorithm>
#include <chrono>

namespace bora {
namespace {

using Clock = std::chrono::steady_clock;

double now_s() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

constexpr const char* kTimeIsOver = "time is over";

/// Naps that grow: short operations are noticed at once, long ones cost no core.
class Naps {
 public:
  void nap() {
    std::this_thread::sleep_for(std::chrono::microseconds(length_us_));
    length_us_ = std::min<int64_t>(length_us_ * 2, 1000);
  }

 private:
  int64_t length_us_ = 10;
};

}  // namespace

bool NcclOperation::done() {
  engine_->poll();
  if (engine_->failed()) return true;  // wait() says how
  const std::lock_guard lock(engine_->mutex_);
  return finished_;
}

void NcclOperation::wait() {
  engine_->throw_if_failed();
  if (engine_->options_.wait == NcclWait::stream) {
    NcclStream& stream = *engine_->stream_;
    stream.bind();
    NcclStream::wait(stream.compute(), done_);
    return;
  }
  Naps naps;
  while (!done()) naps.nap();
  engine_->throw_if_failed();
}

NcclEngine::NcclEngine(std::shared_ptr<NcclStream> stream, const NcclOptions& options,
                       std::string who, std::string place, std::shared_ptr<NcclInquest> inquest)
    : stream_(std::move(stream)),
      options_(options),
      who_(std::move(who)),
      place_(std::move(place)),
      inquest_(std::move(inquest)) {}

NcclEngine::~NcclEngine() {
  stop_watching();
  abort_native();
}

// Not a timed_mutex: ThreadSanitizer does not know how GCC 12 locks one.
std::unique_lock<std::mutex> NcclEngine::lock_within(double seconds) const {
  std::unique_lock lock(mutex_, std::try_to_lock);
  const double end_s = now_s() + seconds;
  for (Naps naps; !lock && now_s() < end_s; naps.nap()) static_cast<void>(lock.try_lock());
  return lock;
}

std::string NcclEngine::nccl_text(ncclResult_t code) {
  std::string text = ncclGetErrorString(code);
  const char* more = ncclGetLastError(nullptr);  // of this process; the argument is not used
  if (more != nullptr && *more != '\0') text += detail::join(" (", more, ")");
  return text;
}

ncclResult_t NcclEngine::state() {
  ncclResult_t code = ncclSuccess;
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr || gone_) return ncclInvalidUsage;
  const ncclResult_t answer = ncclCommGetAsyncError(comm_, &code);
  return answer == ncclSuccess ? code : answer;
}

// In non-blocking mode a call may only have begun when it returns.
ncclResult_t NcclEngine::settle(ncclResult_t code, double limit_s, const char* what) {
  const double end_s = now_s() + limit_s;
  Naps naps;
  while (code == ncclInProgress) {
    throw_if_failed();
    // Without this rank's name: the same text on all ranks is told once (Collective::agree).
    BORA_CHECK(now_s() < end_s, what, ": NCCL is not ready after ", limit_s,
               " s; another rank has not come, or hosts cannot reach each other (NCCL_DEBUG=INFO ",
               "says more, NCCL_SOCKET_IFNAME chooses the interface)");
    naps.nap();
    code = state();
  }
  return code;
}

// The name is this engine's own: NCCL may keep the pointer.
ncclConfig_t NcclEngine::config() const {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  if (options_.max_ctas > 0) config.maxCTAs = options_.max_ctas;
  config.commName = options_.name.c_str();
  return config;
}

void NcclEngine::start(const Start& start, double limit_s) {
  stream_->bind();
  ncclConfig_t how = config();
  become_ready(start(&comm_, &how), limit_s);
}

void NcclEngine::start_split(NcclEngine& parent, int color, int key, double limit_s) {
  stream_->bind();
  ncclConfig_t how = config();
  ncclResult_t code = ncclSuccess;
  {
    const std::lock_guard lock(parent.mutex_);
    BORA_CHECK(!parent.gone_, parent.who_, ": split: the communicator is gone");
    code = ncclCommSplit(parent.comm_, color, key, &comm_, &how);
  }
  // In progress on the parent first; the child may not be there before that is over.
  become_ready(parent.settle(code, limit_s, "splitting"), limit_s);
}

void NcclEngine::become_ready(ncclResult_t code, double limit_s) {
  if (NcclStatus::ok(code) && comm_ != nullptr) code = settle(ncclInProgress, limit_s, "starting");
  BORA_CHECK(code == ncclSuccess && comm_ != nullptr, who_,
             ": NCCL could not start: ", nccl_text(code));
}

void NcclEngine::watch() {
  if (options_.poll_s <= 0) return;
  watcher_ = std::thread([this] {
    std::unique_lock lock(watch_mutex_);
    const std::chrono::duration<double> pause(options_.poll_s);
    while (!watch_changed_.wait_for(lock, pause, [&] { return stop_; })) {
      lock.unlock();
      poll();
      lock.lock();
    }
  });
}

void NcclEngine::stop_watching() noexcept {
  {
    const std::lock_guard lock(watch_mutex_);
    stop_ = true;
    watch_changed_.notify_all();
  }
  if (watcher_.joinable()) watcher_.join();
}

ncclResult_t NcclEngine::call(const Enqueue& enqueue, double limit_s) {
  const std::lock_guard lock(mutex_);
  if (gone_) return ncclInvalidUsage;
  call_limit_s_ = limit_s;
  call_since_s_ = now_s();
  const ncclResult_t code = enqueue(comm_, stream_->native());
  call_since_s_ = -1;
  return code;
}

std::shared_ptr<NcclOperation> NcclEngine::issue(NcclNote note, std::vector<Tensor> tensors,
                                                 const Enqueue& enqueue) {
  throw_if_failed();
  auto operation = std::make_shared<NcclOperation>();
  operation->engine_ = shared_from_this();
  operation->note_ = std::move(note);
  operation->tensors_ = std::move(tensors);
  NcclNote& what = operation->note_;
  what.group = options_.name;
  what.id = ++n_issued_;
  stream_->bind();
  operation->ready_ = stream_->record(stream_->compute());
  NcclStream::wait(stream_->native(), operation->ready_);
  // Nothing else may be put on the stream before NCCL has put its own there.  If it cannot, the
  // other ranks may have begun: nothing can be done with this communicator any more.
  try {
    const ncclResult_t code = settle(call(enqueue, what.limit_s), what.limit_s, what.text.c_str());
    BORA_CHECK(code == ncclSuccess, what.text, ": ", nccl_text(code));
  } catch (const std::exception& e) {
    fail(e.what(), Inquire::no);
    for (Naps naps; !failed_; naps.nap()) {  // another thread was first and is still asking around
    }
  }
  throw_if_failed();
  operation->done_ = stream_->record(stream_->native());
  const std::lock_guard lock(mutex_);
  under_way_.push_back(operation);
  if (options_.observer) options_.observer->issued(what);
  return operation;
}

std::string NcclEngine::poll_locked() {
  if (comm_ == nullptr || gone_) return {};
  while (!under_way_.empty() && is_done(under_way_.front()->done_)) {
    NcclOperation& operation = *under_way_.front();
    operation.finished_ = true;
    operation.tensors_.clear();
    if (operation.note_.sequence > 0) completed_ = operation.note_.sequence;
    if (options_.observer) options_.observer->finished(operation.note_);
    under_way_.pop_front();
  }
  ncclResult_t code = ncclSuccess;
  const ncclResult_t answer = ncclCommGetAsyncError(comm_, &code);
  if (answer != ncclSuccess) code = answer;
  if (!NcclStatus::ok(code))
    return detail::join("NCCL reports: ", nccl_text(code), "; oldest operation under way: ",
                        under_way_.empty() ? "none" : under_way_.front()->note_.text);
  if (under_way_.empty()) return {};
  // One after the other on one stream, so only the oldest can be waiting for other ranks; and only
  // once this rank's own work before it is done.
  NcclOperation& oldest = *under_way_.front();
  if (oldest.arrived_s_ < 0) {
    if (is_done(oldest.ready_)) oldest.arrived_s_ = now_s();
    return {};
  }
  const double limit_s = oldest.note_.limit_s;
  if (!wait_is_over(now_s() - oldest.arrived_s_, limit_s)) return {};
  return detail::join(oldest.note_.text, ": ", kTimeIsOver, " (limit ", limit_s, " s)");
}

void NcclEngine::poll() noexcept {
  if (failing_) return;
  std::string fault;
  Inquire inquire = Inquire::no;
  try {
    stream_->bind();
    if (const auto lock = lock_within(0.1)) {
      fault = poll_locked();
    } else if (const double since_s = call_since_s_;
               since_s >= 0 && now_s() - since_s > call_limit_s_) {
      fault = detail::join("a call of NCCL does not return: ", kTimeIsOver, " (limit ",
                           call_limit_s_, " s)");
    }
    if (fault.find(kTimeIsOver) != std::string::npos) inquire = Inquire::yes;
  } catch (const std::exception& e) {  // the device itself has failed
    fault = e.what();
  }
  if (!fault.empty()) fail(fault, inquire);
}

void NcclEngine::drain() {
  const auto is_empty = [&] {
    const std::lock_guard lock(mutex_);
    return under_way_.empty();
  };
  Naps naps;
  for (poll(); !failed_ && !is_empty(); poll()) naps.nap();
  throw_if_failed();
}

std::string NcclEngine::head() const {
  const auto lock = lock_within(1.0);
  if (!lock) return place_ + ", inside a call of NCCL";
  return detail::join(place_, ", ", completed_, " done, ",
                      under_way_.empty() ? std::string("nothing under way")
                                         : "waits in " + under_way_.front()->note_.text);
}

void NcclEngine::fail(const std::string& reason, Inquire inquire) noexcept {
  if (failing_.exchange(true)) return;  // the first reason counts
  try {
    std::string text = detail::join(who_, ": ", reason);
    if (inquire == Inquire::yes && inquest_) text += ". " + inquest_->hold(log_.text(head()));
    {
      const std::lock_guard lock(failure_mutex_);
      failure_ = text;
    }
    failed_ = true;
    log_warn("NCCL communicator '", options_.name, "' is given up: ", text);
    if (options_.observer) options_.observer->failed(text);
  } catch (const std::exception&) {
    failed_ = true;  // without memory for words
  }
  abort_native();  // last: it lets a host that waits for its device go on
}

// The only NCCL call that is allowed beside one that hangs in another thread.
void NcclEngine::abort_native() noexcept {
  const auto lock = lock_within(1.0);
  if (comm_ == nullptr || gone_.exchange(true)) return;
  BORA_NCCL_WARN(ncclCommAbort(comm_));
}

void NcclEngine::finalise(double limit_s) noexcept {
  stop_watching();
  if (comm_ != nullptr && !gone_ && !failing_) {
    try {
      stream_->bind();
      ncclResult_t code = ncclSuccess;
      {
        const std::lock_guard lock(mutex_);
        code = ncclCommFinalize(comm_);
      }
      code = settle(code, limit_s, "ending");
      BORA_CHECK(code == ncclSuccess, who_, ": ending: ", nccl_text(code));
      const std::lock_guard lock(mutex_);
      if (!gone_.exchange(true)) BORA_NCCL(ncclCommDestroy(comm_));
    } catch (const std::exception& e) {
      log_warn("NCCL communicator '", options_.name,
               "' could not end well and is aborted: ", e.what());
    }
  }
  abort_native();
  forget_operations();
}

// Each owns this engine.
void NcclEngine::forget_operations() noexcept {
  std::deque<std::shared_ptr<NcclOperation>> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(under_way_);
  for (const auto& operation : dropped) {
    operation->finished_ = true;
    operation->tensors_.clear();
  }
}

std::string NcclEngine::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

void NcclEngine::throw_if_failed() const {
  if (failed_) throw Error(failure());
}

}  // namespace bora
