// SPDX-License-Identifier: Apache-2.0
// StopWatcher: how a run learns that it should save and leave: by a signal or by its own time
// limit.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "core/collective.hpp"

namespace bora::apps {

/// From now on SIGTERM and SIGUSR1 set a flag instead of ending the process; the second one ends it
/// at once (exit code 128 + its number), since whoever sends two will not wait.  Within one second
/// of the first they are one: schedulers and launchers may both pass a signal on.
void catch_stop_signals();
/// The number of the first signal caught, 0 for none.
int stop_signal();
/// Seconds since the first signal came; negative: none has.
double seconds_since_stop_signal();
/// For long work before the first update, between its pieces: throws Error where a signal came more
/// than `patience_s` ago.  Before that it may still come to a first update, which is worth saving.
/// To be called where an Error of one rank is one of all (Collective::agree).
void leave_if_told(std::string_view doing, double patience_s = 10.0);
/// Whether an Error, on whatever rank, is one of leave_if_told().  Known by its words: contexts
/// keep an Error's message, no more.
bool left_when_told(const std::exception& error);
/// As if none had been caught: for a program that trains again after a run that was stopped.
void forget_stop_signal();

/// Decides for all ranks together, at the same update.
class StopWatcher {
 public:
  /// max_hours: counted on rank 0, from now; 0: no limit.
  StopWatcher(Collective& ranks, double max_hours);

  /// Collective, to be called after every update by all ranks.  True from the update on at which
  /// any rank has caught a signal or rank 0's time is over.  Ranks speak to each other about it at
  /// most ten times a second or so, so that short steps do not pay for it; never less often than
  /// every 64 calls, since steps may become slower.
  /// `call`: rank 0 wants all ranks to meet; they hear it with the same words, see called().
  bool due(bool call = false) { return ask(call, false); }
  /// Whether at the last due() all ranks have heard that rank 0 calls them.
  bool called() const { return called_; }
  /// due() within work whose end all ranks await, say a validation: true as well if any rank has
  /// `failed`, so that none works on for nothing before they fail together.
  bool due_or(bool failed) { return ask(false, failed); }
  /// Collective, without communication: what follows has another pace (a validation, say), so ranks
  /// speak at the next call of due().
  void begin_phase();
  bool stopping() const { return reason_ != Reason::none; }
  /// "a signal" or "train.max_hours"; empty while not stopping.
  std::string reason() const;

 private:
  enum class Reason { none, time, signal, failure };
  Reason own_reason() const;
  bool ask(bool call, bool failed);

  Collective& ranks_;
  double end_s_;
  double last_talk_s_;
  int64_t calls_ = 0, interval_ = 1;  // since the ranks last spoke; until they speak again
  Reason reason_ = Reason::none;
  bool called_ = false;
};

}  // namespace bora::apps
