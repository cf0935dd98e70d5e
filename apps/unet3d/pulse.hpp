// SPDX-License-Identifier: Apache-2.0
// Pulse: ranks whose shares of the work take different times wait for each other without a limit on
// the whole, and hear of a failure at the next beat.
#pragma once

#include <functional>
#include <string_view>

#include "core/collective.hpp"

namespace bora::unet3d {

/// A rank that waits in a collective ends the run after comm.timeout_s.  Here those that are done
/// go on to meet the others after each piece of their work, so that the limit is on a piece, not on
/// a share.
class Pulse {
 public:
  explicit Pulse(Collective& ranks) : ranks_(ranks) {}
  /// Between two pieces of work: throws Stopped if a rank has failed.
  void beat();
  /// This rank has failed: the others stop at their next beat.
  void fail() { failed_ = true; }
  /// This rank has nothing left to do: returns when no rank has.
  void rest();

  /// Another rank has failed; it says why.
  struct Stopped {};

 private:
  double n_active(bool active);
  Collective& ranks_;
  bool failed_ = false;
  bool broken_ = false;  // the ranks cannot be reached any more
};

/// Collective::agree for work that is shared out: `body` does this rank's share and calls beat().
/// If it throws on any rank, the others are stopped, and all throw the same.
void work_apart(Collective& ranks, std::string_view what, const std::function<void(Pulse&)>& body);

}  // namespace bora::unet3d
