// SPDX-License-Identifier: Apache-2.0
// All-reduction through memory that the ranks of a host share.
#include "comm/engine.hpp"

#include <algorithm>
#include <cstring>

namespace bora {
namespace {

constexpr int64_t kLine = 64;  // slices end at cache lines: no line is written by two ranks

}  // namespace

bool Engine::all_in_one_arena() const {
  return std::all_of(records_.begin(), records_.end(),
                     [&](const Record& r) { return r.arena >= 0 && r.arena == records_[0].arena; });
}

// The data lies in shared memory already: each rank sums its slice over all ranks and writes the
// sum to all of them.  Every element is read and written once by one rank, the least possible.
void Engine::all_reduce_in_arena(Operation& op) {
  const int64_t item = size_of(op.in.dtype());
  const Slices slices{op.count(), size_, kLine / item};
  const int64_t begin = slices.first(rank_), end = slices.first(rank_ + 1);
  std::vector<const void*> rows;
  std::vector<void*> outs;
  for (int r = 0; r < size_; ++r) {
    const Record& record = records_[static_cast<size_t>(r)];
    char* data = arenas_[static_cast<size_t>(record.arena)]->part(r) + record.arena_offset;
    rows.push_back(data + begin * item);
    outs.push_back(data + begin * item);
  }
  reduce_rows(op.in.dtype(), op.reduce_op, order_, rows, outs, end - begin);
  ++pieces_;
  window_->set_mark(SharedWindow::reduced, pieces_);
  wait_window(op, SharedWindow::reduced, pieces_, /*arriving=*/false);
}

// Piece by piece: each rank puts what others need of its data into its stage, sums its slice, in
// rank order, into the leader's stage, and takes the whole from there.  The stages stay in cache,
// so memory sees every element read and written once.
//
// Why three stages are enough although a rank fills the next piece's before it finishes this one's:
// piece k + 3 is filled after all have reduced k + 1, hence have filled k + 2, which each does
// after it has taken piece k.
void Engine::all_reduce_staged(Operation& op, bool between_hosts) {
  const DType type = op.in.dtype();
  const int64_t item = size_of(type);
  const int n = window_->size(), me = hosts_->index();
  auto* const data = static_cast<char*>(op.in.raw());
  const int64_t per_piece = window_->stage_bytes() / item;
  const int64_t n_pieces = (op.count() + per_piece - 1) / per_piece;
  const ReduceOp local_op =
      between_hosts && op.reduce_op == ReduceOp::mean ? ReduceOp::sum : op.reduce_op;
  const uint64_t before = pieces_;

  struct Part {
    char* data;
    Slices slices;
    uint64_t turn;
  };
  const auto piece = [&](int64_t k) {
    const int64_t begin = k * per_piece;
    return Part{data + begin * item,
                {std::min(per_piece, op.count() - begin), n, kLine / item},
                before + static_cast<uint64_t>(k)};
  };
  const auto all_but_mine = [&](const Part& p, char* to, const char* from) {
    const int64_t begin = p.slices.first(me) * item, end = p.slices.first(me + 1) * item;
    std::memcpy(to, from, static_cast<size_t>(begin));
    std::memcpy(to + end, from + end, static_cast<size_t>(p.slices.count * item - end));
  };
  const auto fill = [&](const Part& p) {
    if (n > 1) all_but_mine(p, window_->stage(me, p.turn), p.data);
    window_->set_mark(SharedWindow::filled, p.turn + 1);
  };
  const auto reduce = [&](const Part& p) {
    const int64_t begin = p.slices.first(me), end = p.slices.first(me + 1);
    std::vector<const void*> rows;
    for (int i = 0; i < n; ++i)
      rows.push_back((i == me ? p.data : window_->stage(i, p.turn)) + begin * item);
    std::vector<void*> outs = {window_->stage(0, p.turn) + begin * item};
    if (!between_hosts) outs.push_back(p.data + begin * item);
    reduce_rows(type, local_op, order_, rows, outs, end - begin);
    window_->set_mark(SharedWindow::reduced, p.turn + 1);
  };

  fill(piece(0));
  for (int64_t k = 0; k < n_pieces; ++k) {
    const Part p = piece(k);
    if (k + 1 < n_pieces) fill(piece(k + 1));
    wait_window(op, SharedWindow::filled, p.turn + 1, false);
    reduce(p);
    if (!between_hosts) {
      wait_window(op, SharedWindow::reduced, p.turn + 1, false);
      all_but_mine(p, p.data, window_->stage(0, p.turn));
      continue;
    }
    if (hosts_->is_leader()) {
      wait_window(op, SharedWindow::reduced, p.turn + 1, false);
      ring(op, hosts_->leaders(), window_->stage(0, p.turn), p.slices.count,
           options_.ring_piece_bytes, size_);
      window_->set_mark(SharedWindow::complete, p.turn + 1);
    }
    wait_window(op, SharedWindow::complete, p.turn + 1, false, /*leader_only=*/true);
    std::memcpy(p.data, window_->stage(0, p.turn), static_cast<size_t>(p.slices.count * item));
  }
  pieces_ = before + static_cast<uint64_t>(n_pieces);
}

}  // namespace bora
