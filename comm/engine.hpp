// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: how one operation is carried out over a transport.
#pragma once

#include "comm/communicator.hpp"
#include "comm/local_reduce.hpp"
#include "comm/operation_queue.hpp"
#include "comm/shared_window.hpp"
#include "comm/status_board.hpp"
#include "comm/transport.hpp"

#include <atomic>
#include <chrono>
#include <deque>
#include <span>
#include <vector>

namespace bora {

/// Carries out operations of one group of ranks, by MPI or by TCP.  One thread at a time.
///
/// Each operation begins with an exchange of records: every rank tells every rank what it is about
/// to do.  That finds mismatches before any data moves, carries small data along (a scalar needs no
/// second exchange), and is the point where a rank that stays away is noticed.  If all ranks share
/// a host the records go through shared memory, else through the transport.  How the data of
/// all-reductions moves is chosen by choose_all_reduce (engine_shared, engine_ring,
/// engine_library); the rest moves by point-to-point messages and broadcasts (engine_data).
/// Sums are formed by reduce_rows, never by MPI, unless MPI's own all-reduction is asked for.
class Engine {
 public:
  Engine(std::shared_ptr<Transport> transport, std::string host, const CommunicatorOptions& options,
         std::shared_ptr<Heartbeat> heartbeat);

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::shared_ptr<Transport>& transport() const { return transport_; }

  /// Finds out which ranks share a host and makes their shared memory.  Collective; all ranks must
  /// be known to be there.  Error if options ask for shared memory in vain.
  void open_window();
  /// The ranks of this host, seen through the window; null where there is none.  The engine must
  /// outlive it.
  std::shared_ptr<StatusBoard> make_board(const RankGroup& group) const;
  /// Whether execute() will get along without the transport.
  bool needs_no_messages(const Operation& op) const;
  /// Collective, all known to be there: memory for make_shared_tensor, one part for each rank.
  /// Null where the ranks do not all share this host, or it cannot be had (then a warning).
  std::shared_ptr<SharedSegment> make_arena(int64_t bytes);
  int64_t bytes_sent() const { return bytes_sent_; }

  /// Throws AgreedError on a mismatch; any other Error leaves the engine unusable.
  void execute(Operation& op);

  void set_timeout(double seconds) { timeout_s_ = seconds; }
  double timeout() const { return timeout_s_; }
  /// Makes the current and all later operations fail at once.
  void give_up() { give_up_ = true; }

 private:
  /// What a rank tells the others before it takes part.  Fixed size.
  struct Record {
    static constexpr int kLabel = 32, kPayload = 48;  // 128 bytes in all
    uint64_t sequence = 0;
    int64_t count = 0;
    uint64_t label_hash = 0;
    int64_t arena_offset = 0;
    int32_t arena = -1;  // number of the shared segment in which the tensor lies
    int32_t root = -1;
    OperationKind kind = OperationKind::barrier;
    DType type = DType::f32;
    ReduceOp reduce_op = ReduceOp::sum;
    AllReduceAlgorithm setting = AllReduceAlgorithm::automatic;
    char label[kLabel] = {};
    alignas(8) unsigned char payload[kPayload] = {};  // read as its type
    bool matches(const Record& other) const;
    std::string describe() const;
  };
  /// "I wait in operation `sequence`."
  struct Note {
    uint64_t sequence = 0;
    int32_t wants_answer = 0;
    int32_t unused = 0;
  };
  struct Piece {
    void* data = nullptr;
    int64_t bytes = 0;
  };
  using Clock = std::chrono::steady_clock;

  /// Elements [first(i), first(i + 1)) are slice i of n.
  struct Slices {
    int64_t count, n, unit;  // cut at multiples of `unit`
    int64_t first(int64_t i) const { return i == n ? count : count / unit * i / n * unit; }
  };

  void carry_out(Operation& op);
  void exchange_records(const Operation& op);
  void exchange_records_by_transport(const Operation& op);
  void check_records(const Operation& op) const;
  void carry_in_records(Operation& op);
  void move_data(Operation& op);
  int64_t largest_payload(const Operation& op) const;
  const void* payload(const Operation& op, int rank) const;
  AllReduceAlgorithm choose(const Operation& op) const;
  void all_reduce(Operation& op);
  void all_reduce_direct(Operation& op);
  void all_reduce_staged(Operation& op, bool between_hosts);
  void all_reduce_in_arena(Operation& op);
  bool all_in_one_arena() const;
  void all_reduce_halving(Operation& op);
  void halve_and_double(Operation& op, char* data, int64_t count);
  void all_reduce_library(Operation& op);
  // In place on the `members` (ranks of this group, this one among them) in a ring of that order.
  void ring(const Operation& op, const std::vector<int>& members, char* data, int64_t count,
            int64_t piece_bytes, int64_t mean_of);
  void reduce_in_segments(Operation& op);
  void reduce_scatter(Operation& op);
  void gather(Operation& op, bool everywhere);
  void broadcast(Operation& op);
  void broadcast_by_tree(Operation& op);

  // Sends piece r of `out` to rank r and receives piece r of `in` from it, all at once; the own
  // piece is skipped.
  void exchange(const Operation& op, const std::vector<Piece>& out, const std::vector<Piece>& in);
  void swap(const Operation& op, int peer, Piece out, Piece in);
  Request post(const Piece& piece, int peer, bool receive);
  void wait_requests(const Operation& op, bool arriving);
  void wait_for(const Operation& op, std::span<Request> requests, bool arriving);
  // Until every rank of the host (or its leader alone) has reached the mark.
  void wait_window(const Operation& op, SharedWindow::Mark mark, uint64_t value, bool arriving,
                   bool leader_only = false);
  struct Patience;  // what all kinds of waiting have in common
  [[noreturn]] void time_is_over(const Operation& op, bool arriving, double waited_s,
                                 const std::string& culprit);
  std::string last_heard_of(const Operation& op, const std::vector<int>& ranks) const;
  void send_note(int to, const Note& note);
  void read_notes(const Operation& op);
  void* staging(int64_t bytes);

  std::shared_ptr<Transport> transport_;
  int rank_ = 0, size_ = 1;
  std::string host_;
  CommunicatorOptions options_;
  std::shared_ptr<Heartbeat> heartbeat_;
  std::atomic<double> timeout_s_;
  std::atomic<bool> give_up_{false};

  std::unique_ptr<HostGroup> hosts_;
  std::unique_ptr<SharedWindow> window_;  // of this host; null: none, on all ranks
  bool one_host_ = false;                 // all ranks are in the window
  bool enough_cores_ = false;             // for the ranks of this host to poll without a nap
  SumOrder order_ = SumOrder::rank;
  uint64_t pieces_ = 0;  // that have gone through the window
  std::vector<std::shared_ptr<SharedSegment>> arenas_;
  std::atomic<int64_t> bytes_sent_{0};

  std::vector<Request> requests_;
  Record mine_;
  std::vector<Record> records_;
  Tensor staging_;
  std::vector<uint64_t> waits_in_;                   // by rank: the latest note's number
  std::deque<std::pair<Note, Request>> sent_notes_;  // deque: addresses stay
};

}  // namespace bora
