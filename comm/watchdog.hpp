// SPDX-License-Identifier: Apache-2.0
// Watchdog: a thread of each process that ends the run when nobody else can.
#pragma once

#include "comm/flight_recorder.hpp"
#include "comm/status_board.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace bora {

struct Heartbeat;

/// Time that really passed for this process: a gap between two calls counts as kMostPerCall_s at
/// most.  A process that was stopped (a suspended job, a debugger) and goes on has not waited.
class PatientClock {
 public:
  static constexpr double kMostPerCall_s = 1.0;
  PatientClock() : last_ns_(steady_now_ns()) {}
  /// Since construction.
  double elapsed_s();

 private:
  int64_t last_ns_;
  double elapsed_s_ = 0;
};

/// What one rank announces before long work in which the others will wait for it (saving,
/// validating, drawing).  While one lives, operations of this process may wait `limit_s` where the
/// communicator's limit is shorter; and ranks of the same host that wait for this one go on waiting
/// until `limit_s` after the announcement, without having announced anything themselves.  Between
/// hosts nothing is sent, so there all ranks make the section, around the work and the operation
/// in which they meet again:
///
///     LongSection section("saving", 1800);
///     if (comm.rank() == 0) save();
///     comm.barrier("saved");
///
/// May be nested; the longest limit counts.  A section that lasts longer than announced has no
/// effect any more.
class LongSection {
 public:
  explicit LongSection(std::string name, double limit_s = 3600.0);
  ~LongSection();
  LongSection(const LongSection&) = delete;
  LongSection& operator=(const LongSection&) = delete;

 private:
  uint64_t id_;
};

/// The same as WatchedCall for the start of the library behind the communicators, before anything
/// is known: starts the watchdog, which ends this process alone when the call is not back within
/// `BORA_START_TIMEOUT_S` seconds (environment; 300).  Ranks that never start would make it wait
/// for ever.
class WatchedStart {
 public:
  explicit WatchedStart(std::string_view call);

 private:
  WatchedCall call_;
};

/// Whether an operation with this limit has waited too long, sections considered: a call that costs
/// nothing before the limit.
bool wait_is_over(double waited_s, double limit_s);

/// One a process.  Twice a second it looks
/// - whether a thread that works on operations has shown no sign of life for longer than the limit
///   of its operations (it is stuck inside MPI), or a WatchedCall has lasted longer than its limit:
///   then it says so, writes the flight record, and wakes those who wait;
/// - whether, after that or after an operation that failed for good, the process is still there
///   `grace_s` later (its main thread is stuck, or busy elsewhere): then it ends all ranks;
/// - whether the next rank of this host has died without the launcher taking notice;
/// - whether a flight record was asked for: by SIGUSR2, or by another rank of this host that gives
///   up.
/// Between looks it sleeps; it never calls MPI but to end all ranks.
class Watchdog {
 public:
  struct Options {
    int rank = 0, size = 1;
    std::string host;
    /// Ends all ranks with this code; may be called in any thread, and may block.  Without it the
    /// process ends alone, which makes the launcher end the others.
    std::function<void(int code)> end_all;
    double grace_s = 4.0;
  };

  static Watchdog& instance();

  /// Starts the thread, or changes the options of the one that runs.  SIGUSR2 asks for a flight
  /// record from now on, unless the program has a handler of its own for it.
  void start(Options options);
  /// Before the communicators' library ends: `end_all` is not called any more.
  void forget_end_all();
  /// Stops the thread.
  void stop();

  /// From now on, as long as it lives, the heartbeat of a thread that works on operations.
  void watch(const std::shared_ptr<Heartbeat>& heartbeat);
  /// Ranks of this host see each other through it, the one added last where there are several,
  /// until it is dropped: `left_well` tells the others that this rank has nothing more to do with
  /// them.
  void add_board(std::shared_ptr<StatusBoard> board);
  void drop_board(const std::shared_ptr<StatusBoard>& board, bool left_well);

  /// An operation failed, `for_good` if its communicator cannot be used any more.  Writes the
  /// flight record and asks the other ranks of this host for theirs.  Returns what to add to the
  /// message: where the records are.
  std::string operation_failed(const std::string& message, bool for_good);
  /// Why waiting is in vain, once the watchdog has found out; else empty.
  std::string verdict();
  /// What is known about a rank of this host, as StatusBoard::describe; empty if nothing is.
  std::string describe(int world_rank);

 private:
  friend class LongSection;
  friend bool wait_is_over(double waited_s, double limit_s);
  struct Watched;
  struct Section {
    uint64_t id;
    std::string name;
    int64_t begin_ns, end_ns;
    double limit_s;
  };
  using Lock = std::unique_lock<std::mutex>;

  Watchdog();
  void run();
  void look(Lock& lock);
  void publish();
  RankStatus status() const;
  StatusBoard* board() const { return boards_.empty() ? nullptr : boards_.back().get(); }
  void look_for_stuck();
  void look_at_neighbour();
  void write_asked_records(Lock& lock);
  void act(Lock& lock);
  // The first trouble counts.  `verdict`: found out here, so that those who wait must be told.
  void trouble(const std::string& what, bool verdict);
  bool over(double waited_s, double limit_s) const;
  const Section* section() const;  // the longest that is not over
  std::string report() const;
  std::string what_it_does() const;
  static std::string write_record(const std::string& reason, const std::string& more, bool say);

  uint64_t enter(std::string name, double limit_s);
  void leave(uint64_t id);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread thread_;
  bool running_ = false;
  Options options_;
  std::vector<Watched> watched_;
  std::vector<Section> sections_;
  uint64_t n_sections_ = 0;
  std::vector<std::shared_ptr<StatusBoard>> boards_;
  int looks_ = 0, n_dead_ = 0;
  PatientClock clock_;

  std::string trouble_;       // empty: none
  std::string verdict_;       // of the watchdog itself
  double trouble_at_s_ = 0;   // by clock_
  int stage_ = 0;             // 1: trouble is there, 2: end_all was called
  bool said_ = false;         // the verdict
  uint64_t oldest_call_ = 0;  // of the WatchedCalls
  double call_since_s_ = 0;   // by clock_
};

}  // namespace bora
