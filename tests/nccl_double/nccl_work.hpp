// SPDX-License-Identifier: Apache-2.0
// Inner header of the double: a communicator and what its operations do.
#pragma once

#include "tests/nccl_double/cuda_double.hpp"
#include "tests/nccl_double/nccl_double.hpp"
#include "tests/nccl_double/traffic.hpp"

#include <nccl.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace bora::nccl_double {

enum class Kind : int { all_reduce, reduce, broadcast, all_gather, reduce_scatter, send, receive };

struct Operation {
  Kind kind = Kind::all_reduce;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  int peer = -1;  // root, or the other rank
};

Faults faults();
/// A number that no other communicator of this process has: for tags.
int next_serial();
extern std::atomic<int64_t> g_completed;

class Group : public std::enable_shared_from_this<Group> {
 public:
  Group(int rank, int size, bool non_blocking);
  ~Group();

  /// Finds out which ranks of the world the others are, in a thread: through the one that made the
  /// id, or (split) through another communicator.
  void meet(int root, int serial);
  void meet_in(std::shared_ptr<Group> parent, int color, int key);
  ncclResult_t issue(std::vector<Operation> operations, CUstream_st& stream);
  ncclResult_t state() const { return state_; }
  /// The same, as one poll: what is in progress for a number of polls comes nearer to its end.
  ncclResult_t poll();
  void finalise();
  bool finalised() const { return finalised_; }
  void abort();

  std::atomic<int> polls_left{0};

 private:
  struct Header;
  bool given_up() const { return aborted_; }
  void begin(std::function<void()> body);
  void run(std::vector<Operation> operations);
  void run_collective(const Operation& operation);
  void run_pairs(const std::vector<Operation>& operations);
  void meet_faults(int number);
  void hang();
  bool agree(const Operation& operation, int number);
  template <class T>
  void reduce(const Operation& operation, size_t n, const Bytes& rows, T* out) const;
  int tag(int channel) const { return tag_ * 4 + channel; }

  int rank_, size_;
  bool non_blocking_;
  std::vector<int> world_;  // of each rank
  int tag_ = 0;
  std::atomic<ncclResult_t> state_{ncclSuccess};
  std::atomic<bool> aborted_{false}, finalised_{false};
  std::atomic<int> queued_{0}, running_{0};  // groups of operations in streams
  std::atomic<int> n_run_{0};
  int n_issued_ = 0;
  std::vector<Operation> swapped_;  // the one that waits for the next to pass
  std::thread thread_;
};

}  // namespace bora::nccl_double
