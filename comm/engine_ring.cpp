// SPDX-License-Identifier: Apache-2.0
// All-reductions between neighbours: a ring, whole or in pieces, and recursive halving.
#include "comm/engine.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace bora {

// Chunk c of n travels once around while every rank adds its own part (steps 0 to n-2; then rank r
// holds chunk r+1 finished), and once more as it is (steps n-1 to 2n-3).  In step s rank r sends
// chunk r-s to its right and receives chunk r-s-1 from its left.  Each sum is formed along one way
// and copied, so all ranks get the same bits.
//
// With several pieces to a chunk, piece after piece is sent on as soon as it is added, while the
// next is on its way: sends are never waited for in order, and one receive is always posted ahead.
void Engine::ring(const Operation& op, const std::vector<int>& members, char* data, int64_t count,
                  int64_t piece_bytes, int64_t mean_of) {
  const DType type = op.in.dtype();
  const int64_t item = size_of(type);
  const bool mean = op.reduce_op == ReduceOp::mean;
  const ReduceOp reduce_op = mean ? ReduceOp::sum : op.reduce_op;
  const auto n = static_cast<int64_t>(members.size());
  if (n == 1) {
    if (mean) divide(type, data, mean_of, count);
    return;
  }
  const int64_t me = std::find(members.begin(), members.end(), rank_) - members.begin();
  const int left = members[static_cast<size_t>((me + n - 1) % n)];
  const int right = members[static_cast<size_t>((me + 1) % n)];
  const Slices chunks{count, n, 1};
  const int64_t longest = (count + n - 1) / n;  // chunk, so that all count the same pieces
  const int64_t per_piece =
      std::max<int64_t>(std::min(piece_bytes, options_.message_bytes) / item, 1);
  const int64_t n_pieces = std::max<int64_t>((longest + per_piece - 1) / per_piece, 1);
  const int64_t n_items = 2 * (n - 1) * n_pieces;

  struct Part {
    int64_t slot;  // chunk and piece as one number
    Piece piece;
  };
  const auto part = [&](int64_t chunk, int64_t j) {
    const int64_t begin = chunks.first(chunk), length = chunks.first(chunk + 1) - begin;
    const int64_t from = std::min(j * per_piece, length);
    const int64_t to = std::min(from + per_piece, length);
    return Part{chunk * n_pieces + j, {data + (begin + from) * item, (to - from) * item}};
  };
  const auto received = [&](int64_t i) {  // what item i brings
    return part(((me - i / n_pieces - 1) % n + n) % n, i % n_pieces);
  };
  const auto adds = [&](int64_t i) { return i / n_pieces < n - 1; };
  const int64_t buffer_bytes = std::min(per_piece, longest) * item;
  char* const buffers = static_cast<char*>(staging(2 * buffer_bytes));

  std::vector<Request> sends(static_cast<size_t>(n * n_pieces));
  Request receives[2];
  const auto send = [&](const Part& p) {
    Request& request = sends[static_cast<size_t>(p.slot)];
    wait_for(op, {&request, 1}, false);  // of the round before: long gone
    if (p.piece.bytes > 0) request = post(p.piece, right, false);
  };
  const auto receive = [&](int64_t i) {
    if (i >= n_items) return;
    Part p = received(i);
    if (adds(i)) {
      p.piece.data = buffers + (i % 2) * buffer_bytes;
    } else {
      wait_for(op, {&sends[static_cast<size_t>(p.slot)], 1}, false);  // was sent from there
    }
    if (p.piece.bytes > 0) receives[i % 2] = post(p.piece, left, true);
  };

  receive(0);
  for (int64_t j = 0; j < n_pieces; ++j) send(part(me, j));
  for (int64_t i = 0; i < n_items; ++i) {
    receive(i + 1);
    wait_for(op, {&receives[i % 2], 1}, false);
    const Part p = received(i);
    const int64_t length = p.piece.bytes / item;
    if (adds(i)) {
      reduce_rows(type, reduce_op, {buffers + (i % 2) * buffer_bytes, p.piece.data}, p.piece.data,
                  length);
      if (mean && i / n_pieces == n - 2) divide(type, p.piece.data, mean_of, length);
    }
    if (i + n_pieces < n_items) send(p);
  }
  wait_for(op, sends, false);
}

void Engine::swap(const Operation& op, int peer, Piece out, Piece in) {
  std::vector<Piece> outs(static_cast<size_t>(size_)), ins(static_cast<size_t>(size_));
  outs[static_cast<size_t>(peer)] = out;
  ins[static_cast<size_t>(peer)] = in;
  exchange(op, outs, ins);
}

void Engine::all_reduce_halving(Operation& op) {
  const int64_t item = size_of(op.in.dtype());
  const int64_t per_segment = std::max<int64_t>(options_.segment_bytes / item, 1);
  for (int64_t begin = 0; begin < op.count(); begin += per_segment)
    halve_and_double(op, static_cast<char*>(op.in.raw()) + begin * item,
                     std::min(per_segment, op.count() - begin));
}

// With a partner at half the distance each time, one half of what is left goes out and the other
// is added to; then the same way back with finished parts.  Beyond the largest power of two that
// fits, pairs of ranks first become one.  The part of the lower rank always stands left in a sum,
// and each sum is formed by one rank.
void Engine::halve_and_double(Operation& op, char* data, int64_t count) {
  const DType type = op.in.dtype();
  const int64_t item = size_of(type);
  const bool mean = op.reduce_op == ReduceOp::mean;
  const ReduceOp reduce_op = mean ? ReduceOp::sum : op.reduce_op;
  const int n = static_cast<int>(std::bit_floor(static_cast<unsigned>(size_)));
  const int extra = size_ - n;  // ranks 0 .. 2 extra - 1 are in pairs
  const Piece all{data, count * item};
  char* const buffer = static_cast<char*>(staging(all.bytes));

  const bool paired = rank_ < 2 * extra;
  if (paired && rank_ % 2 == 0) {
    swap(op, rank_ + 1, all, {});
    swap(op, rank_ + 1, {}, all);
    return;
  }
  if (paired) {
    swap(op, rank_ - 1, {}, {buffer, all.bytes});
    reduce_rows(type, reduce_op, {buffer, data}, data, count);
  }
  const int me = paired ? rank_ / 2 : rank_ - extra;
  const auto rank_of = [&](int i) { return i < extra ? 2 * i + 1 : i + extra; };
  const Slices slices{count, n, 1};
  const auto part = [&](int first, int last) {
    return Piece{data + slices.first(first) * item,
                 (slices.first(last) - slices.first(first)) * item};
  };
  int first = 0, last = n;  // slices still worked on
  for (int distance = n / 2; distance > 0; distance /= 2) {
    const int partner = me ^ distance, middle = (first + last) / 2;
    const bool lower = me < partner;
    const Piece keep = lower ? part(first, middle) : part(middle, last);
    const Piece give = lower ? part(middle, last) : part(first, middle);
    swap(op, rank_of(partner), give, {buffer, keep.bytes});
    std::vector<const void*> rows = {buffer, keep.data};
    if (lower) std::swap(rows[0], rows[1]);
    reduce_rows(type, reduce_op, rows, keep.data, keep.bytes / item);
    (lower ? last : first) = middle;
  }
  if (mean) divide(type, part(first, last).data, size_, part(first, last).bytes / item);
  for (int distance = 1; distance < n; distance *= 2) {
    const int partner = me ^ distance, length = last - first;
    const bool lower = me < partner;
    const Piece theirs = lower ? part(last, last + length) : part(first - length, first);
    swap(op, rank_of(partner), part(first, last), theirs);
    (lower ? last : first) += lower ? length : -length;
  }
  if (paired) swap(op, rank_ - 1, all, {});
}

}  // namespace bora
