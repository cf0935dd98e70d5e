// SPDX-License-Identifier: Apache-2.0
// The records before each operation.  Waiting is in engine_wait.cpp, the data's way in
// engine_data.cpp and those beside it.
#include "comm/engine.hpp"

#include "core/fnv.hpp"
#include "core/log.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>

namespace bora {
namespace {

// Up to this size one step with copies beats two without, measured on 2 ranks.
constexpr int64_t kCarriedFromArena = 2048;

// By the affinity mask, which a launcher or a batch system may have narrowed.
int cores_of_this_process() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  return ::sched_getaffinity(0, sizeof(mask), &mask) == 0 ? CPU_COUNT(&mask) : 1;
}

bool wants_payload(const Operation& op) {
  return op.kind != OperationKind::barrier && op.kind != OperationKind::reduce_scatter;
}

}  // namespace

bool Engine::Record::matches(const Record& other) const {
  return sequence == other.sequence && kind == other.kind && count == other.count &&
         type == other.type && reduce_op == other.reduce_op && root == other.root &&
         label_hash == other.label_hash && setting == other.setting;
}

std::string Engine::Record::describe() const {
  std::string text = describe_operation(kind, label, sequence, reduce_op, type, count, root);
  if (setting != AllReduceAlgorithm::automatic) text += detail::join(" by ", name_of(setting));
  return text;
}

Engine::Engine(std::shared_ptr<Transport> transport, std::string host,
               const CommunicatorOptions& options, std::shared_ptr<Heartbeat> heartbeat)
    : transport_(std::move(transport)),
      rank_(transport_->rank()),
      size_(transport_->size()),
      host_(std::move(host)),
      options_(options),
      heartbeat_(std::move(heartbeat)),
      timeout_s_(options.timeout_s),
      order_(options.all_reduce == AllReduceAlgorithm::reproducible ? SumOrder::tree
                                                                    : SumOrder::rank) {
  records_.resize(static_cast<size_t>(size_));
  waits_in_.resize(static_cast<size_t>(size_));
}

void Engine::open_window() {
  if (size_ == 1) return;
  using enum AllReduceAlgorithm;
  const AllReduceAlgorithm setting = options_.all_reduce;
  hosts_ = std::make_unique<HostGroup>(*transport_, options_.ranks_per_host);
  std::string why = "stage_bytes is 0";
  bool have = options_.stage_bytes > 0;
  if (have) {
    window_ = std::make_unique<SharedWindow>(*hosts_, options_.stage_bytes);
    for (const int ok : all_gather(*transport_, window_->ok() ? 1 : 0, "opening shared memory"))
      have = have && ok != 0;  // on every host, or on none
    why = window_->why();
    if (!have && !why.empty() && setting != shared && setting != hierarchical)
      log_warn(
          "no memory is shared with the other ranks of this host, all-reductions will be "
          "slower: ",
          why);
  }
  if (!have) window_.reset();
  one_host_ = have && hosts_->n_hosts() == 1;
  enough_cores_ = cores_of_this_process() >= hosts_->size();
  BORA_CHECK(have || (setting != shared && setting != hierarchical), "all-reduction by ",
             name_of(setting), " wants shared memory; ",
             why.empty() ? "another rank has none" : why);
  if (setting == shared && !one_host_)
    throw UsageError(detail::join("all-reduction by shared wants all ranks on one host, these are ",
                                  "on ", hosts_->n_hosts(), "; use hierarchical, or auto"));
}

std::shared_ptr<StatusBoard> Engine::make_board(const RankGroup& group) const {
  if (!window_) return nullptr;
  std::vector<int> ranks;
  for (const int r : hosts_->members()) ranks.push_back(group.world_rank(r));
  return std::make_shared<StatusBoard>([this](int i) { return window_->board(i); },
                                       std::move(ranks), hosts_->index());
}

bool Engine::needs_no_messages(const Operation& op) const {
  if (!one_host_) return false;
  using enum AllReduceAlgorithm;
  if (op.kind == OperationKind::barrier || op.in.bytes() == 0) return true;
  if (wants_payload(op) && op.in.bytes() <= largest_payload(op)) return true;
  if (op.kind != OperationKind::all_reduce) return false;
  const AllReduceAlgorithm way = choose(op);
  return way == shared || way == reproducible;
}

std::shared_ptr<SharedSegment> Engine::make_arena(int64_t bytes) {
  if (!one_host_) return nullptr;
  auto arena = std::make_shared<SharedSegment>(*hosts_, bytes);
  if (!arena->ok()) {
    if (!arena->why().empty()) log_warn("make_shared_tensor gives ordinary memory: ", arena->why());
    return nullptr;
  }
  arenas_.push_back(arena);
  return arena;
}

void Engine::execute(Operation& op) {
  try {
    carry_out(op);
  } catch (const TransportError& e) {
    throw TransportError(detail::join(op.describe(), ": ", e.what()));
  }
}

void Engine::carry_out(Operation& op) {
  exchange_records(op);
  check_records(op);
  if (op.in.bytes() == 0 || op.kind == OperationKind::barrier) return;
  const bool small = wants_payload(op) && op.in.bytes() <= largest_payload(op);
  // Only now is it known where all ranks' tensors lie.
  const bool in_arena = op.kind == OperationKind::all_reduce && one_host_ &&
                        op.in.bytes() > kCarriedFromArena && all_in_one_arena();
  if (small && !in_arena) {
    carry_in_records(op);
  } else {
    op.record.moving();
    move_data(op);
  }
}

AllReduceAlgorithm Engine::choose(const Operation& op) const {
  const detail::RankPlaces places{size_, hosts_ ? hosts_->n_hosts() : size_, window_ != nullptr};
  return detail::choose_all_reduce(options_.all_reduce, places, op.in.dtype(), op.reduce_op,
                                   op.in.bytes());
}

int64_t Engine::largest_payload(const Operation& op) const {
  if (!one_host_) return Record::kPayload;
  if (op.kind == OperationKind::all_reduce) {
    const AllReduceAlgorithm way = choose(op);
    if (way != AllReduceAlgorithm::shared && way != AllReduceAlgorithm::reproducible)
      return Record::kPayload;
  }
  return SharedWindow::kSmallBytes;
}

const void* Engine::payload(const Operation& op, int rank) const {
  if (op.in.bytes() <= Record::kPayload) return records_[static_cast<size_t>(rank)].payload;
  return window_->small(rank, op.sequence);
}

void Engine::exchange_records(const Operation& op) {
  static_assert(sizeof(Record) == SharedWindow::kRecordBytes &&
                std::is_trivially_copyable_v<Record>);
  mine_ = Record{};
  mine_.sequence = op.sequence;
  mine_.count = op.count();
  mine_.label_hash = fnv1a(op.label);
  mine_.root = op.root;
  mine_.kind = op.kind;
  mine_.type = op.in.dtype();
  mine_.reduce_op = op.reduce_op;
  mine_.setting = options_.all_reduce;
  std::memcpy(mine_.label, op.label.data(), std::min<size_t>(op.label.size(), Record::kLabel - 1));
  const int64_t bytes = op.in.bytes();
  const bool carries = wants_payload(op) && bytes > 0;
  if (carries && bytes <= Record::kPayload)
    std::memcpy(mine_.payload, op.in.raw(), static_cast<size_t>(bytes));
  if (!one_host_) return exchange_records_by_transport(op);

  for (size_t i = 0; bytes > 0 && i < arenas_.size(); ++i) {
    const int64_t offset = static_cast<const char*>(op.in.raw()) - arenas_[i]->part(rank_);
    if (offset < 0 || offset + bytes > arenas_[i]->bytes()) continue;
    mine_.arena = static_cast<int32_t>(i);
    mine_.arena_offset = offset;
  }
  if (carries && bytes > Record::kPayload && bytes <= largest_payload(op))
    std::memcpy(window_->small(rank_, op.sequence), op.in.raw(), static_cast<size_t>(bytes));
  std::memcpy(window_->record(rank_, op.sequence), &mine_, sizeof(Record));
  window_->set_mark(SharedWindow::arrived, op.sequence);
  wait_window(op, SharedWindow::arrived, op.sequence, /*arriving=*/true);
  for (int r = 0; r < size_; ++r)
    std::memcpy(&records_[static_cast<size_t>(r)], window_->record(r, op.sequence), sizeof(Record));
}

void Engine::exchange_records_by_transport(const Operation& op) {
  requests_.clear();
  transport_->start_all_gather(&mine_, sizeof(Record), records_.data(), requests_);
  wait_requests(op, /*arriving=*/true);
}

void Engine::check_records(const Operation& op) const {
  for (size_t r = 1; r < records_.size(); ++r) {
    if (records_[r].matches(records_[0])) continue;
    throw AgreedError(detail::join(
        "ranks", op.group && !op.group->is_world() ? " of " + op.group->name : "",
        " disagree on what to do together: rank 0 calls ", records_[0].describe(), ", rank ", r,
        " calls ", records_[r].describe(), "; ", op.who(0), ", ", op.who(static_cast<int>(r))));
  }
}

void Engine::carry_in_records(Operation& op) {
  const size_t bytes = static_cast<size_t>(op.in.bytes());
  switch (op.kind) {
    case OperationKind::all_reduce:
    case OperationKind::reduce: {
      if (op.kind == OperationKind::reduce && rank_ != op.root) return;
      std::vector<const void*> rows;
      for (int r = 0; r < size_; ++r) rows.push_back(payload(op, r));
      reduce_rows(op.in.dtype(), op.reduce_op, order_, rows, {op.in.raw()}, op.count());
      return;
    }
    case OperationKind::broadcast:
      if (rank_ != op.root) std::memcpy(op.in.raw(), payload(op, op.root), bytes);
      return;
    case OperationKind::all_gather:
    case OperationKind::split:
    case OperationKind::gather: {
      if (op.kind == OperationKind::gather && rank_ != op.root) return;
      auto* out = static_cast<char*>(op.out.raw());
      for (int r = 0; r < size_; ++r, out += bytes) std::memcpy(out, payload(op, r), bytes);
      return;
    }
    default:
      BORA_FAIL(op.describe(), ": carries no payload");
  }
}

void* Engine::staging(int64_t bytes) {
  if (!staging_.defined() || staging_.bytes() < bytes) {
    staging_ = Tensor();  // the old one goes back first
    staging_ = Tensor::empty({bytes}, DType::u8);
  }
  return staging_.raw();
}

}  // namespace bora
