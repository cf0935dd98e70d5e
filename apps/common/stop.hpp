// SPDX-License-Identifier: Apache-2.0
// StopWatcher: how a run learns that it should save and leave: by a signal or by its own time
// limit.
#pragma once

#include <string>

#include "core/collective.hpp"

namespace bora::apps {

/// From now on SIGTERM and SIGUSR1 set a flag instead of ending the process; the second one ends it
/// at once (exit code 128 + its number), since whoever sends two will not wait.  Within one second
/// of the first they are one: schedulers and launchers may both pass a signal on.
void catch_stop_signals();
/// The number of the first signal caught, 0 for none.
int stop_signal();

/// Decides for all ranks together, at the same update.
class StopWatcher {
 public:
  /// max_hours: counted on rank 0, from now; 0: no limit.
  StopWatcher(Collective& ranks, double max_hours);

  /// Collective, to be called after every update by all ranks.  True from the update on at which
  /// any rank has caught a signal or rank 0's time is over.  Ranks speak to each other about it at
  /// most every half second or so, so that short steps do not pay for it.
  /// `call`: rank 0 wants all ranks to meet; they hear it with the same words, see called().
  bool due(bool call = false);
  /// Whether at the last due() all ranks have heard that rank 0 calls them.
  bool called() const { return called_; }
  /// All ranks have agreed elsewhere that one of them has caught a signal.
  void stop_now() { reason_ = Reason::signal; }
  bool stopping() const { return reason_ != Reason::none; }
  /// "a signal" or "train.max_hours"; empty while not stopping.
  std::string reason() const;

 private:
  enum class Reason { none, time, signal };
  Reason own_reason() const;

  Collective& ranks_;
  double end_s_;
  double last_talk_s_;
  int64_t updates_ = 0, interval_ = 1;  // since the ranks last spoke; until they speak again
  Reason reason_ = Reason::none;
  bool called_ = false;
};

}  // namespace bora::apps
