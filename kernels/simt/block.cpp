// SPDX-License-Identifier: Apache-2.0
#include "kernels/simt/block.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "core/error.hpp"

namespace bora::simt::detail {
namespace {

bool same_place(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

std::string text(const std::source_location& where) {
  return bora::detail::join(where.file_name(), ':', where.line());
}

std::string hex(unsigned mask) {
  std::ostringstream out;
  out << "0x" << std::hex << mask;
  return out.str();
}

const char* name(WarpOp op) {
  switch (op) {
    case WarpOp::shuffle:
      return "a shuffle";
    case WarpOp::ballot:
      return "a vote";
    case WarpOp::sync:
      return "__syncwarp";
  }
  return "?";
}

}  // namespace

void Block::configure(const char* what, dim3 block, Schedule schedule) {
  what_ = what;
  shape_ = block;
  n_ = block.x * block.y * block.z;
  schedule_ = schedule;
  random_.seed(schedule.seed);
  state_.resize(n_);
  wait_.resize(std::max<size_t>(wait_.size(), n_));
  lanes_waiting_.resize((n_ + 31) / 32);
  order_.resize(n_);
  std::iota(order_.begin(), order_.end(), 0u);
  if (schedule.kind == ScheduleKind::backward) std::reverse(order_.begin(), order_.end());
}

void Block::reset(uint3 index) {
  index_ = index;
  blockIdx = index;
  std::fill(state_.begin(), state_.end(), State::fresh);
  std::fill(lanes_waiting_.begin(), lanes_waiting_.end(), 0u);
  n_ended_ = n_at_barrier_ = cursor_ = 0;
  cancelled_ = false;
  order_threads();
}

void Block::order_threads() {
  if (schedule_.kind == ScheduleKind::shuffled) std::shuffle(order_.begin(), order_.end(), random_);
}

void Block::place(unsigned t) {
  thread = t;
  threadIdx = {t % shape_.x, t / shape_.x % shape_.y, t / shape_.x / shape_.y};
  state_[t] = State::running;
}

void Block::begin(unsigned t) { place(t); }
void Block::resume(unsigned t) { place(t); }

void Block::end(unsigned t) {
  state_[t] = State::ended;
  ++n_ended_;
}

bool Block::pick(unsigned& next) {
  if (cancelled_) {
    // Those that have not begun stay so; the others end by an exception.
    for (unsigned t = 0; t < n_; ++t) {
      if (state_[t] == State::fresh || state_[t] == State::ended) continue;
      next = t;
      return true;
    }
    return false;
  }
  for (;;) {
    while (cursor_ < n_) {
      const unsigned t = order_[cursor_++];
      if (state_[t] != State::fresh && state_[t] != State::ready) continue;
      next = t;
      return true;
    }
    if (n_ended_ == n_) return false;
    if (!release()) throw_stuck();
    cursor_ = 0;
    order_threads();
  }
}

bool Block::release() {
  bool any = false;
  for (unsigned warp = 0; warp < lanes_waiting_.size(); ++warp)
    if (lanes_waiting_[warp] != 0) any |= release_warp(warp);
  if (any) return true;
  // Threads that ended early would be let off by today's devices, but not by CUDA's text.
  if (n_at_barrier_ != n_) return false;
  for (unsigned t = 1; t < n_; ++t)
    if (!same_place(wait_[t].where, wait_[0].where)) return false;
  std::fill(state_.begin(), state_.end(), State::ready);
  n_at_barrier_ = 0;
  return true;
}

bool Block::release_warp(unsigned warp) {
  bool any = false;
  unsigned rest = lanes_waiting_[warp];
  while (rest != 0) {
    Wait* const lanes = wait_.data() + warp * 32;
    const auto first = static_cast<unsigned>(std::countr_zero(rest));
    const unsigned mask = lanes[first].mask;
    rest &= ~mask;
    if ((lanes_waiting_[warp] & mask) != mask) continue;
    bool same = true;
    uint64_t votes = 0, values[32];
    for (unsigned l = 0; l < 32; ++l) {
      if ((mask >> l & 1) == 0) continue;
      same &= lanes[l].mask == mask && lanes[l].op == lanes[first].op;
      values[l] = lanes[l].value;
      votes |= uint64_t{lanes[l].value != 0} << l;
    }
    if (!same) continue;
    for (unsigned l = 0; l < 32; ++l) {
      if ((mask >> l & 1) == 0) continue;
      lanes[l].value = lanes[l].op == WarpOp::shuffle ? values[lanes[l].source] : votes;
      state_[warp * 32 + l] = State::ready;
    }
    lanes_waiting_[warp] &= ~mask;
    any = true;
  }
  return any;
}

void Block::wait_at_barrier(const std::source_location& where) {
  wait_[thread].where = where;
  state_[thread] = State::at_barrier;
  ++n_at_barrier_;
}

void Block::wait_for_lanes(WarpOp op, unsigned mask, uint64_t value, unsigned source,
                           const std::source_location& where) {
  const unsigned warp = thread / 32, lane = thread % 32;
  const unsigned n_lanes = std::min(32u, n_ - warp * 32);
  BORA_CHECK(mask >> lane & 1, name(op), " at ", text(where), ": lane ", lane,
             " is not in its own mask ", hex(mask));
  BORA_CHECK(n_lanes == 32 || mask >> n_lanes == 0, name(op), " at ", text(where), ": mask ",
             hex(mask), " names lanes that the block has not (its last warp has ", n_lanes, ")");
  BORA_CHECK(op != WarpOp::shuffle || (mask >> source & 1), name(op), " at ", text(where),
             ": lane ", lane, " reads lane ", source, ", which is not in the mask ", hex(mask));
  wait_[thread] = {where, value, mask, source, op};
  state_[thread] = State::at_lanes;
  lanes_waiting_[warp] |= 1u << lane;
}

std::string Block::name_of(unsigned t) const {
  const unsigned x = t % shape_.x, y = t / shape_.x % shape_.y, z = t / shape_.x / shape_.y;
  return bora::detail::join(what_, ": thread (", x, ", ", y, ", ", z, ") of block (", index_.x,
                            ", ", index_.y, ", ", index_.z, ")");
}

std::string Block::doing(unsigned t) const {
  switch (state_[t]) {
    case State::ended:
      return "has ended";
    case State::at_barrier:
      return "waits in __syncthreads at " + text(wait_[t].where);
    case State::at_lanes:
      return bora::detail::join("waits in ", name(wait_[t].op), " at ", text(wait_[t].where),
                                " for the lanes ", hex(wait_[t].mask));
    default:
      return "can go on";
  }
}

void Block::throw_stuck() const {
  const auto waits = [&](unsigned t) { return state_[t] != State::ended; };
  // A lane that waits is the narrower story; else the first thread at a barrier.
  unsigned first = n_;
  for (unsigned t = 0; t < n_; ++t) {
    if (state_[t] == State::at_lanes) {
      first = t;
      break;
    }
    if (first == n_ && waits(t)) first = t;
  }
  unsigned other = first;
  if (state_[first] == State::at_lanes) {
    const unsigned warp = first / 32 * 32;
    for (unsigned l = 0; l < 32; ++l) {
      if ((wait_[first].mask >> l & 1) == 0) continue;
      const unsigned t = warp + l;
      if (state_[t] == State::at_lanes && wait_[t].mask == wait_[first].mask &&
          wait_[t].op == wait_[first].op)
        continue;
      other = t;
      break;
    }
    BORA_FAIL(name_of(first), ' ', doing(first), ", but thread ", other, " of the block ",
              doing(other), ": lanes of a mask must meet in one operation");
  }
  for (unsigned t = 0; t < n_; ++t) {
    if (state_[t] == State::at_barrier && same_place(wait_[t].where, wait_[first].where)) continue;
    other = t;
    break;
  }
  BORA_FAIL(name_of(first), ' ', doing(first), ", but thread ", other, " of the block ",
            doing(other), ": all threads must meet at one barrier");
}

}  // namespace bora::simt::detail
