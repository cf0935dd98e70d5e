// SPDX-License-Identifier: Apache-2.0
// The records before each operation, and waiting with a limit.  The data's way is in
// mpi_engine_data.cpp.
#include "comm/mpi_engine.hpp"

#include "comm/fnv.hpp"
#include "comm/local_reduce.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

namespace bora {
namespace {

constexpr int kNoteTag = 2;

// Measured on shared cores: a thread that tests and sleeps 50 us costs the computing threads
// least; one that sits in MPI_Wait takes a core.  A late peer deserves longer naps.
std::chrono::microseconds nap(double waited_s) {
  return std::chrono::microseconds(waited_s < 0.05 ? 50 : waited_s < 1.0 ? 200 : 1000);
}

bool wants_payload(const Operation& op) {
  return op.kind != OperationKind::barrier && op.kind != OperationKind::split &&
         op.kind != OperationKind::reduce_scatter;
}

}  // namespace

bool MpiEngine::Record::matches(const Record& other) const {
  return sequence == other.sequence && kind == other.kind && count == other.count &&
         type == other.type && reduce_op == other.reduce_op && root == other.root &&
         label_hash == other.label_hash;
}

std::string MpiEngine::Record::describe() const {
  return describe_operation(kind, label, sequence, reduce_op, type, count, root);
}

MpiEngine::MpiEngine(MPI_Comm comm, bool owned, std::string host,
                     const CommunicatorOptions& options, std::shared_ptr<Heartbeat> heartbeat)
    : comm_(comm),
      owned_(owned),
      host_(std::move(host)),
      options_(options),
      heartbeat_(std::move(heartbeat)),
      timeout_s_(options.timeout_s) {
  BORA_MPI(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
  BORA_MPI(MPI_Comm_rank(comm_, &rank_));
  BORA_MPI(MPI_Comm_size(comm_, &size_));
  records_.resize(static_cast<size_t>(size_));
  waits_in_.resize(static_cast<size_t>(size_));
}

MpiEngine::~MpiEngine() {
  if (owned_) BORA_MPI_WARN(MPI_Comm_free(&comm_));
}

void MpiEngine::execute(Operation& op) {
  exchange_records(op);
  check_records(op);
  if (op.in.bytes() == 0 || op.kind == OperationKind::barrier || op.kind == OperationKind::split)
    return;
  if (wants_payload(op) && op.in.bytes() <= Record::kPayload) {
    carry_in_records(op);
  } else {
    move_data(op);
  }
}

void MpiEngine::exchange_records(const Operation& op) {
  static_assert(sizeof(Record) == 128 && std::is_trivially_copyable_v<Record>);
  mine_ = Record{};
  mine_.sequence = op.sequence;
  mine_.count = op.count();
  mine_.label_hash = fnv1a(op.label);
  mine_.root = op.root;
  mine_.kind = op.kind;
  mine_.type = op.in.dtype();
  mine_.reduce_op = op.reduce_op;
  std::memcpy(mine_.label, op.label.data(), std::min<size_t>(op.label.size(), Record::kLabel - 1));
  if (wants_payload(op) && op.in.bytes() > 0 && op.in.bytes() <= Record::kPayload)
    std::memcpy(mine_.payload, op.in.raw(), static_cast<size_t>(op.in.bytes()));
  requests_.assign(1, MPI_REQUEST_NULL);
  {
    const MpiGate gate = mpi_gate();
    BORA_MPI(MPI_Iallgather(&mine_, sizeof(Record), MPI_BYTE, records_.data(), sizeof(Record),
                            MPI_BYTE, comm_, requests_.data()));
  }
  wait_requests(op, /*arriving=*/true);
}

void MpiEngine::check_records(const Operation& op) const {
  for (size_t r = 1; r < records_.size(); ++r) {
    if (records_[r].matches(records_[0])) continue;
    throw AgreedError(detail::join(
        "ranks disagree on what to do together: rank 0 calls ", records_[0].describe(), ", rank ",
        r, " calls ", records_[r].describe(), "; this is rank ", rank_, " in ", op.describe()));
  }
}

void MpiEngine::carry_in_records(Operation& op) {
  const size_t bytes = static_cast<size_t>(op.in.bytes());
  switch (op.kind) {
    case OperationKind::all_reduce:
    case OperationKind::reduce: {
      if (op.kind == OperationKind::reduce && rank_ != op.root) return;
      std::vector<const void*> rows;
      for (const Record& r : records_) rows.push_back(r.payload);
      reduce_rows(op.in.dtype(), op.reduce_op, rows, op.in.raw(), op.count());
      return;
    }
    case OperationKind::broadcast:
      if (rank_ != op.root)
        std::memcpy(op.in.raw(), records_[static_cast<size_t>(op.root)].payload, bytes);
      return;
    case OperationKind::all_gather:
    case OperationKind::gather: {
      if (op.kind == OperationKind::gather && rank_ != op.root) return;
      auto* out = static_cast<char*>(op.out.raw());
      for (const Record& r : records_) {
        std::memcpy(out, r.payload, bytes);
        out += bytes;
      }
      return;
    }
    default:
      BORA_FAIL(op.describe(), ": carries no payload");
  }
}

void MpiEngine::wait_requests(const Operation& op, bool arriving) {
  const auto start = Clock::now();
  const double limit = timeout_s_;
  // Between two looks at the notes: rarely, and never so late that an answer would miss the limit.
  const double look_every = std::min(0.1, limit / 20);
  double next_look = look_every;
  bool asked = false;
  for (int tries = 0;; ++tries) {
    int done = 0;
    {
      const MpiGate gate = mpi_gate();
      BORA_MPI(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done,
                           MPI_STATUSES_IGNORE));
    }
    if (done) return;
    heartbeat_->beat();
    if (tries < 16) {  // peers are mostly near: look again before sleeping
      std::this_thread::yield();
      continue;
    }
    const double waited = std::chrono::duration<double>(Clock::now() - start).count();
    if (give_up_) BORA_FAIL(op.describe(), ": given up on rank ", rank_, " after another error");
    if (arriving && waited > next_look) {
      const MpiGate gate = mpi_gate();
      next_look = waited + look_every;
      read_notes(op);
      if (!asked && waited > limit / 2) {
        asked = true;
        for (int r = 0; r < size_; ++r)
          if (r != rank_) send_note(r, {op.sequence, 1, 0});
      }
    }
    if (waited > limit) time_is_over(op, arriving, waited);
    std::this_thread::sleep_for(nap(waited));
  }
}

void MpiEngine::time_is_over(const Operation& op, bool arriving, double waited_s) {
  std::string missing;
  for (int r = 0; r < size_; ++r)
    if (r != rank_ && waits_in_[static_cast<size_t>(r)] != op.sequence)
      missing += detail::join(missing.empty() ? "" : ", ", r);
  std::string message =
      detail::join(op.describe(), ": time is over on rank ", rank_, " of ", size_, ", host ", host_,
                   ", after ", std::max(waited_s, 0.0), " s (limit ", timeout_s_.load(), " s); ");
  if (!arriving) {
    message += "all ranks had arrived, but the data did not: a rank or the network has failed";
  } else if (missing.empty()) {
    message += "all other ranks say that they wait in it too: the network has failed";
  } else {
    message += "not heard of in this operation: rank(s) " + missing;
  }
  BORA_FAIL(message);
}

void MpiEngine::send_note(int to, const Note& note) {
  auto& [kept, request] = sent_notes_.emplace_back(note, MPI_REQUEST_NULL);
  BORA_MPI(MPI_Isend(&kept, sizeof(Note), MPI_BYTE, to, kNoteTag, comm_, &request));
}

void MpiEngine::read_notes(const Operation& op) {
  while (!sent_notes_.empty()) {
    int done = 0;
    BORA_MPI(MPI_Test(&sent_notes_.front().second, &done, MPI_STATUS_IGNORE));
    if (!done) break;
    sent_notes_.pop_front();
  }
  for (;;) {
    int there = 0;
    MPI_Status status;
    BORA_MPI(MPI_Iprobe(MPI_ANY_SOURCE, kNoteTag, comm_, &there, &status));
    if (!there) return;
    Note note;
    const int from = status.MPI_SOURCE;
    BORA_MPI(MPI_Recv(&note, sizeof(Note), MPI_BYTE, from, kNoteTag, comm_, MPI_STATUS_IGNORE));
    uint64_t& latest = waits_in_[static_cast<size_t>(from)];
    latest = std::max(latest, note.sequence);
    if (note.wants_answer && note.sequence == op.sequence) send_note(from, {op.sequence, 0, 0});
  }
}

void* MpiEngine::staging(int64_t bytes) {
  if (!staging_.defined() || staging_.bytes() < bytes) {
    staging_ = Tensor();  // the old one goes back first
    staging_ = Tensor::empty({bytes}, DType::u8);
  }
  return staging_.raw();
}

}  // namespace bora
