// SPDX-License-Identifier: Apache-2.0
// FlightRecorder: what this process has lately done together with others, for the hour of need.
#pragma once

#include "core/dtype.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bora {

/// How far an operation has come on this rank.
enum class FlightState : uint8_t {
  queued,   ///< asked for; others are before it
  arrived,  ///< this rank takes part and waits for the others
  moving,   ///< all have arrived, data moves (data that travels with the arrival has no such state)
  done,
  failed,
};
std::string_view name_of(FlightState state);

/// Nanoseconds of the steady clock, which the processes of a host share.
int64_t steady_now_ns();

/// One operation as it was recorded.  Texts are cut where they do not fit.  Times are
/// steady_now_ns, 0 for what has not happened.
struct FlightEntry {
  uint64_t id = 0;        ///< number in this process, from 1: the order of begin()
  uint64_t sequence = 0;  ///< number on its communicator, from 1; 0: it has none
  int64_t count = -1;     ///< elements; -1: the operation carries none
  int64_t bytes = 0;
  int64_t queued_ns = 0, arrived_ns = 0, moving_ns = 0, ended_ns = 0;
  double limit_s =
      0;              ///< the watchdog ends the run when it is under way for longer; 0: it does not
  int32_t peer = -1;  ///< root, or the other rank of a send or receive
  DType type = DType::f32;
  FlightState state = FlightState::queued;
  char operation[18] = {};
  char group[32] = {};
  char label[48] = {};
  char fault[96] = {};  ///< begin of the error's text

  bool under_way() const { return state != FlightState::done && state != FlightState::failed; }
  /// "all_reduce 'bucket 2' #7 of world"
  std::string describe() const;
};

/// What begin() is told.
struct FlightNote {
  std::string_view operation;  ///< "all_reduce"
  std::string_view group;      ///< name of the communicator
  std::string_view label;
  uint64_t sequence = 0;
  int64_t count = -1;
  DType type = DType::f32;
  int peer = -1;
  double limit_s = 0;    ///< as FlightEntry's
  bool arrived = false;  ///< nothing is before it: it begins in that state
};

class FlightRecorder;

/// One recorded operation; a copy is the same one.  A default token records nothing.  Each call
/// notes the time; calls after done() or failed() change nothing.  One thread at a time.
class RecordToken {
 public:
  RecordToken() = default;
  void arrived() const;
  void moving() const;
  void done() const;
  void failed(std::string_view fault) const;
  uint64_t id() const { return id_; }

 private:
  friend class FlightRecorder;
  RecordToken(FlightRecorder* recorder, uint32_t slot, uint64_t id)
      : recorder_(recorder), slot_(slot), id_(id) {}
  FlightRecorder* recorder_ = nullptr;
  uint32_t slot_ = 0;
  uint64_t id_ = 0;
};

/// The last kCapacity operations.  Any thread writes and any thread reads, at any time; nobody
/// waits for anybody.
/// An operation that is under way is not overwritten, however old: it is the one that matters.  If
/// kCapacity operations are under way, new ones are counted and not recorded.
class FlightRecorder {
 public:
  static constexpr size_t kCapacity = 512;

  FlightRecorder();
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;
  /// The process's; never destroyed.
  static FlightRecorder& instance();

  RecordToken begin(const FlightNote& note);

  /// All entries, oldest first.
  std::vector<FlightEntry> entries() const;
  /// The youngest entry of all; nothing before the first.
  std::optional<FlightEntry> latest() const;
  int64_t n_recorded() const { return static_cast<int64_t>(next_id_.load()); }
  int64_t n_dropped() const { return n_dropped_; }

  /// Who writes: for the head of a record and the name of its file.
  void set_identity(int rank, int size, std::string host);
  int rank() const;
  std::string host() const;
  /// Where write() puts its file; an empty text: nowhere.  At first what the environment variable
  /// BORA_FLIGHT_RECORD_DIR says.
  void set_folder(std::string folder);
  std::string folder() const;

  /// A readable record: a head (who, when, why, `more` lines), then one line an entry.
  std::string text(std::string_view reason, std::string_view more = {}) const;
  /// Writes text() to <folder>/flight-<rank>.txt and returns that path; a second record of the same
  /// process is added below the first.  Without a folder, and where writing fails (a warning says
  /// so), the path is empty.  Never throws.
  std::string write(std::string_view reason, std::string_view more = {});

 private:
  friend class RecordToken;
  struct Slot;

  void step(uint32_t slot, uint64_t id, FlightState state, std::string_view fault);

  std::unique_ptr<Slot[]> slots_;
  std::atomic<uint64_t> next_ticket_{0}, next_id_{0};
  std::atomic<int64_t> n_dropped_{0};
  const int64_t anchor_steady_ns_, anchor_wall_ns_;  // the same moment by two clocks

  mutable std::mutex mutex_;  // of what follows
  int rank_ = 0, size_ = 1;
  std::string host_, folder_;
  bool written_ = false;
};

/// Sets the folder of the process's recorder: programs call it with their output folder, unless the
/// environment has named one (the environment wins).
void set_flight_record_folder(const std::string& folder);

/// An operation that cannot be bounded by itself: recorded while this object lives, and the
/// watchdog ends the run when that is longer than `limit_s`.
class WatchedCall {
 public:
  WatchedCall(std::string_view call, double limit_s, std::string_view label = {});
  ~WatchedCall();
  WatchedCall(const WatchedCall&) = delete;
  WatchedCall& operator=(const WatchedCall&) = delete;

 private:
  RecordToken token_;
  int exceptions_;
};

}  // namespace bora
