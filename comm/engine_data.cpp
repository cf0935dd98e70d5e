// SPDX-License-Identifier: Apache-2.0
// How data moves, and where sums are formed.
#include "comm/engine.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace bora {
namespace {

constexpr int kDataTag = 1;

char* bytes_of(Tensor& x) { return static_cast<char*>(x.raw()); }

}  // namespace

void Engine::move_data(Operation& op) {
  switch (op.kind) {
    case OperationKind::all_reduce:
      return all_reduce(op);
    case OperationKind::reduce:
      return reduce_in_segments(op);
    case OperationKind::reduce_scatter:
      return reduce_scatter(op);
    case OperationKind::all_gather:
      return gather(op, /*everywhere=*/true);
    case OperationKind::gather:
      return gather(op, /*everywhere=*/false);
    case OperationKind::broadcast:
      return broadcast(op);
    default:
      BORA_FAIL(op.describe(), ": moves no data");
  }
}

void Engine::all_reduce(Operation& op) {
  using enum AllReduceAlgorithm;
  char* const data = bytes_of(op.in);
  const auto everybody = [&] {
    std::vector<int> ranks(static_cast<size_t>(size_));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  };
  const AllReduceAlgorithm way = choose(op);
  switch (way) {
    case reproducible:
    case shared:
      if (one_host_)
        return all_in_one_arena() ? all_reduce_in_arena(op) : all_reduce_staged(op, false);
      [[fallthrough]];
    case exchange:
      if (op.in.bytes() <= options_.direct_bytes) return all_reduce_direct(op);
      return reduce_in_segments(op);
    case ring:
    case chunked_ring: {
      const int64_t piece = way == ring ? options_.message_bytes : options_.ring_piece_bytes;
      return this->ring(op, everybody(), data, op.count(), piece, size_);
    }
    case halving:
      return all_reduce_halving(op);
    case hierarchical:
      return all_reduce_staged(op, /*between_hosts=*/true);
    case library:
      return all_reduce_library(op);
    case automatic:
      break;
  }
  BORA_FAIL(op.describe(), ": no way was chosen");
}

Request Engine::post(const Piece& piece, int peer, bool receive) {
  BORA_CHECK(piece.bytes <= options_.message_bytes, "a message of ", piece.bytes,
             " bytes; at most ", options_.message_bytes, " go at once");
  if (receive) return transport_->receive(piece.data, piece.bytes, peer, kDataTag);
  bytes_sent_ += piece.bytes;
  return transport_->send(piece.data, piece.bytes, peer, kDataTag);
}

void Engine::exchange(const Operation& op, const std::vector<Piece>& out,
                      const std::vector<Piece>& in) {
  requests_.clear();
  const auto post_all = [&](const Piece& piece, int peer, bool receive) {
    // Pieces of one pair arrive in the order they were sent, so one tag is enough.
    for (int64_t begin = 0; begin < piece.bytes; begin += options_.message_bytes)
      requests_.push_back(post({static_cast<char*>(piece.data) + begin,
                                std::min(options_.message_bytes, piece.bytes - begin)},
                               peer, receive));
  };
  // Each rank begins with another neighbour, so that not all send to rank 0 first.
  for (int k = 1; k < size_; ++k) {
    const int from = (rank_ - k + size_) % size_;
    post_all(in[static_cast<size_t>(from)], from, true);
  }
  for (int k = 1; k < size_; ++k) {
    const int to = (rank_ + k) % size_;
    post_all(out[static_cast<size_t>(to)], to, false);
  }
  wait_requests(op, /*arriving=*/false);
}

void Engine::all_reduce_direct(Operation& op) {
  const int64_t bytes = op.in.bytes();
  auto* all = static_cast<char*>(staging(bytes * size_));
  requests_.clear();
  transport_->start_all_gather(op.in.raw(), bytes, all, requests_);
  wait_requests(op, false);
  std::vector<const void*> rows;
  for (int r = 0; r < size_; ++r) rows.push_back(all + r * bytes);
  reduce_rows(op.in.dtype(), op.reduce_op, order_, rows, {op.in.raw()}, op.count());
}

// all_reduce and reduce: each rank gets its slice of everybody's data, reduces it in rank order and
// hands it out.  2 (n-1)/n of the data leaves each rank (half of it for reduce), the least
// possible.
void Engine::reduce_in_segments(Operation& op) {
  const bool everywhere = op.kind == OperationKind::all_reduce;
  const int64_t item = size_of(op.in.dtype());
  const int64_t per_segment = std::max<int64_t>(options_.segment_bytes / item, size_);
  for (int64_t begin = 0; begin < op.count(); begin += per_segment) {
    const int64_t n = std::min(per_segment, op.count() - begin);
    char* data = bytes_of(op.in) + begin * item;
    const auto first = [&](int r) { return n * r / size_; };  // of rank r's slice
    const auto slice = [&](int r) {
      return Piece{data + first(r) * item, (first(r + 1) - first(r)) * item};
    };
    const Piece mine = slice(rank_);
    auto* received = static_cast<char*>(staging(mine.bytes * size_));
    std::vector<Piece> out, in;
    std::vector<const void*> rows;
    for (int r = 0; r < size_; ++r) {
      out.push_back(slice(r));
      in.push_back({received + r * mine.bytes, mine.bytes});
      rows.push_back(r == rank_ ? mine.data : in.back().data);
    }
    exchange(op, out, in);
    // reduce leaves the data of other ranks alone: the result then lies in the staging buffer.
    const bool in_place = everywhere || rank_ == op.root;
    void* result = in_place ? mine.data : in[static_cast<size_t>(rank_)].data;
    reduce_rows(op.in.dtype(), op.reduce_op, order_, rows, {result}, mine.bytes / item);
    for (int r = 0; r < size_; ++r) {
      const bool to_r = everywhere || r == op.root;
      out[static_cast<size_t>(r)] = to_r ? Piece{result, mine.bytes} : Piece{};
      in[static_cast<size_t>(r)] = in_place ? slice(r) : Piece{};
    }
    exchange(op, out, in);
  }
}

void Engine::reduce_scatter(Operation& op) {
  const int64_t item = size_of(op.in.dtype());
  const int64_t row = op.out.numel();
  const int64_t per_segment = std::max<int64_t>(options_.segment_bytes / item / size_, 1);
  for (int64_t begin = 0; begin < row; begin += per_segment) {
    const int64_t bytes = std::min(per_segment, row - begin) * item;
    auto* received = static_cast<char*>(staging(bytes * size_));
    std::vector<Piece> out, in;
    std::vector<const void*> rows;
    for (int r = 0; r < size_; ++r) {
      out.push_back({bytes_of(op.in) + (r * row + begin) * item, bytes});
      in.push_back({received + r * bytes, bytes});
      rows.push_back(r == rank_ ? out.back().data : in.back().data);
    }
    exchange(op, out, in);
    reduce_rows(op.in.dtype(), op.reduce_op, order_, rows, {bytes_of(op.out) + begin * item},
                bytes / item);
  }
}

void Engine::gather(Operation& op, bool everywhere) {
  const int64_t bytes = op.in.bytes();
  std::vector<Piece> out(static_cast<size_t>(size_)), in(static_cast<size_t>(size_));
  const bool receives = everywhere || rank_ == op.root;
  for (int r = 0; r < size_; ++r) {
    if (everywhere || r == op.root) out[static_cast<size_t>(r)] = {op.in.raw(), bytes};
    if (receives) in[static_cast<size_t>(r)] = {bytes_of(op.out) + r * bytes, bytes};
  }
  exchange(op, out, in);
  if (receives && bytes_of(op.out) + rank_ * bytes != op.in.raw())
    std::memcpy(bytes_of(op.out) + rank_ * bytes, op.in.raw(), static_cast<size_t>(bytes));
}

void Engine::broadcast(Operation& op) {
  requests_.clear();
  for (int64_t begin = 0; begin < op.in.bytes(); begin += options_.message_bytes) {
    const int64_t n = std::min(options_.message_bytes, op.in.bytes() - begin);
    if (!transport_->start_broadcast(bytes_of(op.in) + begin, n, op.root, requests_))
      return broadcast_by_tree(op);
  }
  wait_requests(op, false);
}

// A binomial tree, counted from the root: rank v receives from v without its lowest bit and sends
// to those that it is that for, the farthest first.  In pieces, so that those farther down begin
// early.
void Engine::broadcast_by_tree(Operation& op) {
  const auto rank_of = [&](int v) { return (v + op.root) % size_; };
  const int me = (rank_ - op.root + size_) % size_;
  int below = 1;  // the subtree of this rank: me .. me + below - 1
  while (below < size_ && (me & below) == 0) below *= 2;
  const int64_t per_piece = std::min(options_.segment_bytes, options_.message_bytes);
  std::vector<Request> receives;
  const auto each_piece = [&](auto&& body) {
    for (int64_t begin = 0, i = 0; begin < op.in.bytes(); begin += per_piece, ++i)
      body(Piece{bytes_of(op.in) + begin, std::min(per_piece, op.in.bytes() - begin)},
           static_cast<size_t>(i));
  };
  if (me != 0)
    each_piece([&](Piece p, size_t) { receives.push_back(post(p, rank_of(me - below), true)); });
  requests_.clear();
  each_piece([&](Piece p, size_t i) {
    if (me != 0) wait_for(op, {&receives[i], 1}, false);
    for (int distance = below / 2; distance > 0; distance /= 2)
      if (me + distance < size_) requests_.push_back(post(p, rank_of(me + distance), false));
  });
  wait_requests(op, false);
}

}  // namespace bora
