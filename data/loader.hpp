// SPDX-License-Identifier: Apache-2.0
// Loader: worker threads that read ahead, delivered strictly in order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/profile.hpp"
#include "data/sampler.hpp"

namespace bora::data {

struct LoaderOptions {
  int n_threads = 2;    ///< 0: reads happen in next(), in the caller's thread
  int queue_depth = 0;  ///< samples read or being read ahead; 0: twice n_threads
};

/// Throws UsageError for what cannot be: negative or absurd numbers, a queue without threads, fewer
/// places than threads.  Returns the options with queue_depth filled in.
LoaderOptions checked(LoaderOptions options);

/// What went wrong while reading a slot, as an exception whose message begins with the sample's
/// name; UsageError stays one, all else becomes Error.
std::exception_ptr loader_error(std::exception_ptr cause, const Slot& slot,
                                const std::string& sample);

/// Reads the slots of an epoch ahead of their use on threads that live as long as the loader.
///
/// next() gives the items in the order of the slots, whatever thread finished first, so the caller
/// sees the same items for any number of threads provided that `read` is a pure function of its
/// slot (random numbers keyed by slot.epoch and slot.index).  `read` and `name` must be callable
/// from several threads at once.  At most queue_depth items wait or are being read.  All functions
/// are to be called from one thread; the destructor and start() may be called at any time, and the
/// destructor waits only for the reads in progress.
template <class Item>
class Loader {
 public:
  /// Reads one item.  What it throws reaches the caller of next(), at that item's turn.
  using Read = std::function<Item(const Slot&)>;
  /// The sample's name by index, for messages.
  using Name = std::function<std::string(int64_t index)>;

  Loader(LoaderOptions options, Read read, Name name = {})
      : options_(checked(options)), read_(std::move(read)), name_(std::move(name)) {
    BORA_CHECK(read_, "Loader: wants a function that reads");
    results_.resize(static_cast<size_t>(options_.queue_depth));
    try {
      for (int i = 0; i < options_.n_threads; ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {  // the system gives no more threads
      stop();
      throw;
    }
  }
  ~Loader() { stop(); }
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Begins to read `slots`.  What is left of the previous epoch is dropped.
  void start(std::vector<Slot> slots) {
    std::vector<Result> dropped(results_.size());  // destroyed after the lock is released
    {
      const std::lock_guard lock(mutex_);
      ++generation_;
      slots_.swap(slots);
      n_taken_ = n_delivered_ = 0;
      dropped.swap(results_);
    }
    room_.notify_all();
  }

  /// The next item, or nothing after the last one.  Blocks until it is there.  Throws the Error of
  /// a read that failed, once; the call after that goes on with the following item.
  std::optional<Item> next() {
    if (n_delivered_ == static_cast<int64_t>(slots_.size())) return std::nullopt;
    const double begin_s = now_s();
    Result result = options_.n_threads > 0 ? take_result() : read_slot(slots_[place(n_delivered_)]);
    if (options_.n_threads == 0) ++n_delivered_;
    wait_s_ += now_s() - begin_s;
    if (result.error) std::rethrow_exception(result.error);
    return std::move(*result.item);
  }

  /// Seconds that next() has blocked its caller so far, over all epochs.  Feature 87.
  double wait_s() const { return wait_s_; }
  /// How many of this epoch's items next() has given (or thrown for).
  int64_t n_delivered() const { return n_delivered_; }
  /// The slots of this epoch; the next item is of slots()[n_delivered()].
  const std::vector<Slot>& slots() const { return slots_; }
  const LoaderOptions& options() const { return options_; }

 private:
  struct Result {
    std::optional<Item> item;
    std::exception_ptr error;
    bool there() const { return item.has_value() || error != nullptr; }
  };
  static size_t place(int64_t i) { return static_cast<size_t>(i); }

  Result read_slot(const Slot& slot) const {
    Result result;
    try {
      result.item.emplace(read_(slot));
    } catch (...) {
      const std::exception_ptr cause = std::current_exception();
      try {
        result.error = loader_error(cause, slot, name_ ? name_(slot.index) : std::string());
      } catch (...) {  // no memory or no name: the cause alone
        result.error = cause;
      }
    }
    return result;
  }

  Result take_result() {
    Result result;
    {
      std::unique_lock lock(mutex_);
      Result& mine = results_[place(n_delivered_ % options_.queue_depth)];
      ready_.wait(lock, [&] { return mine.there(); });
      result = std::exchange(mine, Result());
      ++n_delivered_;
    }
    room_.notify_one();
    return result;
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      room_.wait(lock, [&] {
        return stopped_ || (n_taken_ < static_cast<int64_t>(slots_.size()) &&
                            n_taken_ < n_delivered_ + options_.queue_depth);
      });
      if (stopped_) return;
      const int64_t mine = n_taken_++;
      const int64_t generation = generation_;
      const Slot slot = slots_[place(mine)];
      lock.unlock();
      Result result = read_slot(slot);
      lock.lock();
      if (generation == generation_ && !stopped_) {
        results_[place(mine % options_.queue_depth)] = std::move(result);
        ready_.notify_one();
      } else {  // of an epoch that was left: destroyed outside the lock
        lock.unlock();
        result = Result();
        lock.lock();
      }
    }
  }

  void stop() noexcept {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    room_.notify_all();
    for (std::thread& t : threads_) t.join();
    threads_.clear();
  }

  const LoaderOptions options_;
  const Read read_;
  const Name name_;
  std::mutex mutex_;
  std::condition_variable room_;   // a slot may be taken, or the end has come
  std::condition_variable ready_;  // a result has arrived
  // Under mutex_.  slots_ and n_delivered_ are written by the caller's thread only, which therefore
  // reads them without it.
  std::vector<Slot> slots_;
  std::vector<Result> results_;  // ring: item i is at i % queue_depth
  int64_t n_taken_ = 0;
  int64_t n_delivered_ = 0;
  int64_t generation_ = 0;
  bool stopped_ = false;
  double wait_s_ = 0;  // the caller's thread only
  std::vector<std::thread> threads_;
};

}  // namespace bora::data
