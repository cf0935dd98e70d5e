// SPDX-License-Identifier: Apache-2.0
// Loader: worker threads that read ahead, delivered strictly in order.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/crash_note.hpp"
#include "core/log.hpp"
#include "core/profile.hpp"
#include "data/sampler.hpp"

namespace bora::data {

struct LoaderOptions {
  int n_threads = 2;     ///< 0: reads happen in next(), in the caller's thread
  int queue_depth = 0;   ///< samples read or being read ahead; 0: twice n_threads
  double timeout_s = 0;  ///< longest wait of next() for threads; then an Error.  0: none
  double tell_s = 30;    ///< a wait above this is told in the log, and again after twice as long
};

/// Throws UsageError for what cannot be: negative or absurd numbers, a queue without threads, fewer
/// places than threads.  Returns the options with queue_depth filled in.
LoaderOptions checked(LoaderOptions options);

/// What went wrong while reading a slot, as an exception whose message begins with the sample's
/// name; UsageError stays one, all else becomes Error.
std::exception_ptr loader_error(std::exception_ptr cause, const Slot& slot,
                                const std::string& sample);

/// Whether a wait of any loader of this process has reached its timeout_s: a thread hangs in a read
/// then, and others perhaps behind it, for the lock of HDF5.
std::atomic<bool>& a_read_hangs();

/// A read that is under way: of which sample, and for how long.
struct ReadUnderWay {
  std::string sample;
  double seconds = 0;
};
/// "waiting for sample 15VF20 for 30 s; being read: 15VF20 ('/data/a.nc') for 31 s, ..."
std::string slow_text(const std::string& sample, double waited_s,
                      const std::vector<ReadUnderWay>& reads);

/// Reads the slots of an epoch ahead of their use on threads that live as long as the loader.
///
/// next() gives the items in the order of the slots, whatever thread finished first, so the caller
/// sees the same items for any number of threads provided that `read` is a pure function of its
/// slot (random numbers keyed by slot.epoch and slot.index).  `read` and `name` must be callable
/// from several threads at once.  At most queue_depth items wait or are being read.  All functions
/// are to be called from one thread; the destructor and start() may be called at any time.
///
/// The destructor waits for the reads in progress.  After a wait of any loader that has reached its
/// timeout_s it does so for a few seconds only, and then leaves the threads that still hang in a
/// read to the end of the program, which must come soon: what they read from may be gone.
template <class Item>
class Loader {
 public:
  /// Reads one item.  What it throws reaches the caller of next(), at that item's turn.
  using Read = std::function<Item(const Slot&)>;
  /// Of the sample by index, for messages.
  using Name = std::function<std::string(int64_t index)>;

  /// `name` of a sample, `where` it is read from (its name and files; `name` where there is none).
  Loader(LoaderOptions options, Read read, Name name = {}, Name where = {})
      : shared_(std::make_shared<Shared>()), options_(checked(options)) {
    BORA_CHECK(read, "Loader: wants a function that reads");
    shared_->queue_depth = options_.queue_depth;
    shared_->read = std::move(read);
    shared_->where = where ? std::move(where) : name;
    shared_->name = std::move(name);
    shared_->results.resize(static_cast<size_t>(options_.queue_depth));
    shared_->reading.resize(static_cast<size_t>(options_.n_threads));
    try {
      for (int i = 0; i < options_.n_threads; ++i)
        threads_.emplace_back([shared = shared_, i] { shared->work(static_cast<size_t>(i)); });
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
    std::vector<Result> dropped(shared_->results.size());  // destroyed after the lock is released
    {
      const std::lock_guard lock(shared_->mutex);
      ++shared_->generation;
      shared_->slots.swap(slots);
      shared_->n_taken = shared_->n_delivered = 0;
      dropped.swap(shared_->results);
    }
    shared_->room.notify_all();
  }

  /// The next item, or nothing after the last one.  Blocks until it is there.  Throws the Error of
  /// a read that failed, once; the call after that goes on with the following item.  Throws Error
  /// naming the samples that are being read when they take longer than timeout_s.
  std::optional<Item> next() {
    if (n_delivered() == static_cast<int64_t>(slots().size())) return std::nullopt;
    const double begin_s = now_s();
    Result result = options_.n_threads > 0 ? take_result(begin_s) : read_here(begin_s);
    wait_s_ += now_s() - begin_s;
    if (result.error) std::rethrow_exception(result.error);
    return std::move(*result.item);
  }

  /// Seconds that next() has blocked its caller so far, over all epochs.  Feature 87.
  double wait_s() const { return wait_s_; }
  /// How many of this epoch's items next() has given (or thrown for).
  int64_t n_delivered() const { return shared_->n_delivered; }
  /// The slots of this epoch; the next item is of slots()[n_delivered()].
  const std::vector<Slot>& slots() const { return shared_->slots; }
  const LoaderOptions& options() const { return options_; }

 private:
  struct Result {
    std::optional<Item> item;
    std::exception_ptr error;
    bool there() const { return item.has_value() || error != nullptr; }
  };
  static size_t place(int64_t i) { return static_cast<size_t>(i); }

  /// What the threads use.  They share its ownership, since one may outlive the loader.
  struct Shared {
    int64_t queue_depth = 0;
    Read read;
    Name name, where;
    std::mutex mutex;
    std::condition_variable room;   // a slot may be taken, or the end has come
    std::condition_variable ready;  // a result has arrived, or a thread has ended
    // Under mutex.  slots and n_delivered are written by the caller's thread only, which therefore
    // reads them without it.
    std::vector<Slot> slots;
    std::vector<Result> results;  // ring: item i is at i % queue_depth
    struct Reading {
      int64_t index = 0;
      double begin_s = 0;
      bool is_under_way = false;
    };
    std::vector<Reading> reading;  // of each thread
    int64_t n_taken = 0;
    int64_t n_delivered = 0;
    int64_t generation = 0;
    int n_ended = 0;
    bool stopped = false;

    Result read_slot(const Slot& slot) const {
      Result result;
      std::string files;
      try {
        if (where) files = where(slot.index);
      } catch (...) {  // no memory or no name: then none is told
      }
      const CrashNote note(files);
      try {
        result.item.emplace(read(slot));
      } catch (...) {
        const std::exception_ptr cause = std::current_exception();
        try {
          result.error = loader_error(cause, slot, name ? name(slot.index) : std::string());
        } catch (...) {  // no memory or no name: the cause alone
          result.error = cause;
        }
      }
      return result;
    }

    void work(size_t thread) {
      std::unique_lock lock(mutex);
      while (true) {
        room.wait(lock, [&] {
          return stopped || (n_taken < static_cast<int64_t>(slots.size()) &&
                             n_taken < n_delivered + queue_depth);
        });
        if (stopped) break;
        const int64_t mine = n_taken++;
        const int64_t my_generation = generation;
        const Slot slot = slots[place(mine)];
        reading[thread] = {slot.index, now_s(), true};
        lock.unlock();
        Result result = read_slot(slot);
        lock.lock();
        reading[thread].is_under_way = false;
        if (my_generation == generation && !stopped) {
          results[place(mine % queue_depth)] = std::move(result);
          ready.notify_one();
        } else {  // of an epoch that was left: destroyed outside the lock
          lock.unlock();
          result = Result();
          lock.lock();
        }
      }
      ++n_ended;
      ready.notify_one();
    }

    std::string text_of(const Name& of, int64_t index) const {
      return of ? of(index) : "number " + std::to_string(index);
    }
    std::string slow(double waited_s) {
      std::vector<ReadUnderWay> reads;
      for (const Reading& r : reading)
        if (r.is_under_way) reads.push_back({text_of(where, r.index), now_s() - r.begin_s});
      return slow_text(text_of(name, slots[place(n_delivered)].index), waited_s, reads);
    }
  };

  Result read_here(double begin_s) {
    const Slot slot = slots()[place(n_delivered())];
    Result result = shared_->read_slot(slot);
    ++shared_->n_delivered;
    const double took_s = now_s() - begin_s;
    if (took_s > options_.tell_s)
      log_warn("loader: ", slow_text(shared_->text_of(shared_->where, slot.index), took_s, {}));
    return result;
  }

  Result take_result(double begin_s) {
    using std::chrono::duration;
    Shared& s = *shared_;
    Result result;
    {
      std::unique_lock lock(s.mutex);
      Result& mine = s.results[place(s.n_delivered % options_.queue_depth)];
      double tell_s = options_.tell_s;
      while (!mine.there()) {
        const double waited_s = now_s() - begin_s;
        if (options_.timeout_s > 0 && waited_s >= options_.timeout_s) {
          a_read_hangs() = true;
          BORA_FAIL("loader.timeout_s = ", options_.timeout_s, " has passed: ", s.slow(waited_s),
                    ". Is the file system that they lie on still there?");
        }
        if (waited_s >= tell_s) {
          log_warn("loader: ", s.slow(waited_s));
          tell_s = 2 * waited_s;
        }
        const double until_s =
            options_.timeout_s > 0 ? std::min(tell_s, options_.timeout_s) : tell_s;
        s.ready.wait_for(lock, duration<double>(std::max(0.001, until_s - waited_s)));
      }
      result = std::exchange(mine, Result());
      ++s.n_delivered;
    }
    s.room.notify_one();
    return result;
  }

  void stop() noexcept {
    constexpr std::chrono::seconds kGrace{3};
    Shared& s = *shared_;
    bool all_end = true;
    {
      std::unique_lock lock(s.mutex);
      s.stopped = true;
      s.room.notify_all();
      if (a_read_hangs())
        all_end = s.ready.wait_for(lock, kGrace,
                                   [&] { return s.n_ended == static_cast<int>(threads_.size()); });
    }
    for (std::thread& t : threads_) all_end ? t.join() : t.detach();
    threads_.clear();
  }

  std::shared_ptr<Shared> shared_;
  const LoaderOptions options_;
  double wait_s_ = 0;  // the caller's thread only
  std::vector<std::thread> threads_;
};

}  // namespace bora::data
