// SPDX-License-Identifier: Apache-2.0
// Collective: what ranks do together, without saying by which library.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.hpp"

namespace bora {

/// mean = sum / size.  min and max propagate NaN.  Every rank gets the same bits, run after run.
/// Sums are formed in acc_t in rank order, unless the communicator was told to all-reduce in a way
/// that has another fixed order (comm/algorithm.hpp).
enum class ReduceOp : uint8_t { sum, mean, min, max };
std::string_view name_of(ReduceOp op);

/// Work that was started.  A default Work is done.  wait() is bounded: after the collective's time
/// limit it throws an Error that names the operation, its number and this rank.
class Work {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual bool done() = 0;
    virtual void wait() = 0;
  };
  Work() = default;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  bool done() const { return !state_ || state_->done(); }
  /// Blocks until done; rethrows what went wrong.
  void wait() const {
    if (state_) state_->wait();
  }

 private:
  std::shared_ptr<State> state_;
};

/// A group of ranks.  Every rank must call the same operations in the same order with the same
/// types and counts; `label` names the operation in messages.  Tensors must be on device_type();
/// violations throw before anything is sent.
class Collective {
 public:
  virtual ~Collective() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual DeviceType device_type() const = 0;
  /// The same ranks for host memory, over which scalars, texts and agreements travel: this group
  /// itself unless its tensors are on devices.  Used by the same thread.
  virtual Collective& control() { return *this; }
  /// Whether sums over ranks are formed in a binary tree, (0+1)+(2+3); else in rank order, or in
  /// another fixed order.  True for one rank.
  virtual bool sums_in_tree_order() const { return size() == 1; }

  /// In place over the whole tensor; the tensor must not be touched until the work is done.
  virtual Work all_reduce_async(Tensor x, ReduceOp op, std::string_view label) = 0;
  /// In place; root's bytes win.
  virtual void broadcast(Tensor& x, int root, std::string_view label) = 0;
  /// out (size, ...) receives each rank's x (...) in rank order.
  virtual void all_gather(const Tensor& x, Tensor& out, std::string_view label) = 0;
  /// out on root (size, ...) receives each rank's x; ignored on the others (may be undefined
  /// there).
  virtual void gather(const Tensor& x, Tensor& out, int root, std::string_view label) = 0;
  /// In place on root; the other ranks' x is left as it was.
  virtual void reduce(Tensor& x, int root, ReduceOp op, std::string_view label) = 0;
  /// x (size, ...) is reduced, out (...) receives this rank's row.
  virtual void reduce_scatter(const Tensor& x, Tensor& out, ReduceOp op,
                              std::string_view label) = 0;
  /// One rank sends, one receives; only these two call.  Starts at once; messages of a pair arrive
  /// in the order in which they were sent.  Both may send before they receive, or the other way
  /// round, as long as they start both before they wait.  If type, count or label differ, the
  /// receiver's wait() throws an Error that names both; the message is gone then, and x undefined.
  /// x must not be touched, and the communicator not be destroyed, until the work is done. An
  /// implementation may do without: then these throw.
  virtual Work send_async(Tensor x, int to, std::string_view label);
  virtual Work receive_async(Tensor x, int from, std::string_view label);
  /// The same, done on return.  Two ranks that both send first may wait for each other until the
  /// time limit: use swap().
  void send(const Tensor& x, int to, std::string_view label) { send_async(x, to, label).wait(); }
  void receive(Tensor& x, int from, std::string_view label) {
    receive_async(x, from, label).wait();
  }
  /// Sends `out` to a rank while `in` is received from a rank, the same or another.
  void swap(const Tensor& out, int to, Tensor& in, int from, std::string_view label);
  /// Returns when all ranks have called it; throws after the time limit, naming the ranks that are
  /// missing where that is known.
  virtual void barrier(std::string_view label) = 0;
  /// Ranks of equal color form a group, ordered by (key, rank).
  virtual std::unique_ptr<Collective> split(int color, int key) = 0;

  /// The same, done on return: where ranks share memory this is faster than to wait for the other.
  virtual void all_reduce(Tensor& x, ReduceOp op, std::string_view label) {
    all_reduce_async(x, op, label).wait();
  }
  double all_reduce(double value, ReduceOp op, std::string_view label);
  int64_t all_reduce(int64_t value, ReduceOp op, std::string_view label);
  std::vector<double> all_reduce(std::vector<double> values, ReduceOp op, std::string_view label);
  /// Every rank's text, in rank order, on all ranks.
  std::vector<std::string> all_gather_text(const std::string& text, std::string_view label);
  /// Root's text on all ranks.
  std::string broadcast_text(const std::string& text, int root, std::string_view label);

  /// Runs `body` on every rank; if it throws on any, all ranks throw the same: a UsageError if any
  /// did, else an Error.  It says what each failing rank said, in one text: the bare message where
  /// all ranks agree, else "<what>: rank 1 failed: <message>".  So a failure on one rank is a
  /// failure on all, with one cause, told once, and nobody waits for ever.
  void agree(std::string_view what, const std::function<void()>& body);
};

}  // namespace bora
