// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: one collective operation on its way through the queue.
#pragma once

#include "comm/flight_recorder.hpp"
#include "comm/rank_group.hpp"
#include "core/collective.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace bora {

enum class OperationKind : uint8_t {
  all_reduce,
  broadcast,
  all_gather,
  gather,
  reduce,
  reduce_scatter,
  barrier,
  split
};
std::string_view name_of(OperationKind kind);

/// Signs of life of the thread that works on operations.
struct Heartbeat {
  std::atomic<int64_t> last_ns{0};     ///< steady clock
  std::atomic<double> limit_s{600.0};  ///< longest silence
  std::atomic<int64_t> busy{0};        ///< operations submitted and not done
  void beat();
};

/// What to do, and the state behind Work: waiting ends when the queue calls finish() or fail().
struct Operation final : Work::State {
  OperationKind kind = OperationKind::barrier;
  ReduceOp reduce_op = ReduceOp::sum;
  int root = -1;
  Tensor in, out;
  std::string label;
  uint64_t sequence = 0;  ///< number of the operation on its communicator, from 1
  std::shared_ptr<Heartbeat> heartbeat;
  std::shared_ptr<const RankGroup> group;  ///< whose ranks take part; null: not said
  RecordToken record;
  bool eager = false;  ///< somebody waits for it and has nothing else to do: poll without naps

  /// "all_reduce 'grad 3' #17 (sum, f32, 1000 elements)"; in a split group " of <its name>" more.
  std::string describe() const;
  /// "rank 1 on host node7", as far as that is known.
  std::string who(int rank) const;
  /// Notes in the flight recorder that it was submitted, and if `arrived` that it is begun at once.
  void begin_record(bool arrived);
  int64_t count() const { return in.numel(); }

  bool done() override;
  void wait() override;
  void finish();
  void fail(std::string message);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::string error_;
};

/// The same for the fields alone, as another rank sent them.
std::string describe_operation(OperationKind kind, std::string_view label, uint64_t sequence,
                               ReduceOp reduce_op, DType type, int64_t count, int root);

}  // namespace bora
