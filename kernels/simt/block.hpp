// SPDX-License-Identifier: Apache-2.0
// The threads of the block that runs: who has begun, waits or has ended, and who is next.
#pragma once

#include <random>
#include <source_location>
#include <string>
#include <vector>

#include "kernels/simt/simt.hpp"

namespace bora::simt::detail {

class Block {
 public:
  unsigned thread = 0;  ///< the one that runs

  void configure(const char* what, dim3 block, Schedule schedule);
  /// All threads are fresh.
  void reset(uint3 index);
  size_t n_threads() const { return n_; }

  /// The thread that runs next; false when all have ended.  Throws Error when none can: what it
  /// waits for cannot come.  After cancel(): any thread that has begun and not ended.
  bool pick(unsigned& next);
  bool fresh(unsigned t) const { return state_[t] == State::fresh; }

  void begin(unsigned t);
  /// Goes on where it waited.
  void resume(unsigned t);
  void end(unsigned t);
  void wait_at_barrier(const std::source_location& where);
  /// Throws Error if the calling lane or the source is not in the mask, or the block has not its
  /// lanes.
  void wait_for_lanes(WarpOp op, unsigned mask, uint64_t value, unsigned source,
                      const std::source_location& where);
  uint64_t result(unsigned t) const { return wait_[t].value; }

  void cancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_; }
  /// "op: thread (1, 0, 0) of block (0, 0, 0)"
  std::string name_of(unsigned t) const;

 private:
  enum class State : uint8_t { fresh, ready, running, at_barrier, at_lanes, ended };
  struct Wait {
    std::source_location where;
    uint64_t value = 0;
    unsigned mask = 0, source = 0;
    WarpOp op{};
  };

  void order_threads();
  bool release();
  bool release_warp(unsigned warp);
  [[noreturn]] void throw_stuck() const;
  std::string doing(unsigned t) const;
  void place(unsigned t);

  const char* what_ = "";
  dim3 shape_{};
  uint3 index_{};
  Schedule schedule_;
  unsigned n_ = 0, n_ended_ = 0, n_at_barrier_ = 0, cursor_ = 0;
  bool cancelled_ = false;
  std::vector<State> state_;
  std::vector<Wait> wait_;
  std::vector<unsigned> order_;
  std::vector<unsigned> lanes_waiting_;  // of each warp, a bit each
  std::mt19937_64 random_;
};

}  // namespace bora::simt::detail
