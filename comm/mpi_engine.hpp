// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: how one operation is carried out over MPI.
#pragma once

#include "comm/communicator.hpp"
#include "comm/mpi_status.hpp"
#include "comm/operation_queue.hpp"

#include <atomic>
#include <chrono>
#include <deque>
#include <vector>

namespace bora {

/// Carries out operations on one MPI communicator.  One thread at a time.
///
/// Each operation begins with an exchange of records: every rank tells every rank what it is about
/// to do.  That finds mismatches before any data moves, carries small data along (a scalar needs no
/// second exchange), and is the point where a rank that stays away is noticed.  Data moves by
/// point-to-point messages or MPI_Ibcast and MPI_Iallgather; sums are formed by reduce_rows, never
/// by MPI, so they are in rank order and the same everywhere.
class MpiEngine {
 public:
  /// `owned`: frees `comm` at the end; nobody else may use it then.
  MpiEngine(MPI_Comm comm, bool owned, std::string host, const CommunicatorOptions& options,
            std::shared_ptr<Heartbeat> heartbeat);
  ~MpiEngine();

  int rank() const { return rank_; }
  int size() const { return size_; }
  MPI_Comm comm() const { return comm_; }

  /// Throws AgreedError on a mismatch; any other Error leaves the engine unusable.
  void execute(Operation& op);

  void set_timeout(double seconds) { timeout_s_ = seconds; }
  double timeout() const { return timeout_s_; }
  /// Makes the current and all later operations fail at once.
  void give_up() { give_up_ = true; }

 private:
  /// What a rank tells the others before it takes part.  Fixed size.
  struct Record {
    static constexpr int kLabel = 44, kPayload = 48;  // 128 bytes in all
    uint64_t sequence = 0;
    int64_t count = 0;
    uint64_t label_hash = 0;
    int32_t root = -1;
    OperationKind kind = OperationKind::barrier;
    DType type = DType::f32;
    ReduceOp reduce_op = ReduceOp::sum;
    char label[kLabel] = {};
    unsigned char payload[kPayload] = {};
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

  void exchange_records(const Operation& op);
  void check_records(const Operation& op) const;
  void carry_in_records(Operation& op);
  void move_data(Operation& op);
  void all_reduce_direct(Operation& op);
  void reduce_in_segments(Operation& op);
  void reduce_scatter(Operation& op);
  void gather(Operation& op, bool everywhere);
  void broadcast(Operation& op);

  // Sends piece r of `out` to rank r and receives piece r of `in` from it, all at once; the own
  // piece is skipped.
  void exchange(const Operation& op, const std::vector<Piece>& out, const std::vector<Piece>& in);
  void wait_requests(const Operation& op, bool arriving);
  [[noreturn]] void time_is_over(const Operation& op, bool arriving, double waited_s);
  void send_note(int to, const Note& note);
  void read_notes(const Operation& op);
  void* staging(int64_t bytes);

  MPI_Comm comm_;
  bool owned_;
  int rank_ = 0, size_ = 1;
  std::string host_;
  CommunicatorOptions options_;
  std::shared_ptr<Heartbeat> heartbeat_;
  std::atomic<double> timeout_s_;
  std::atomic<bool> give_up_{false};

  std::vector<MPI_Request> requests_;
  Record mine_;
  std::vector<Record> records_;
  Tensor staging_;
  std::vector<uint64_t> waits_in_;                       // by rank: the latest note's number
  std::deque<std::pair<Note, MPI_Request>> sent_notes_;  // deque: addresses stay
};

}  // namespace bora
