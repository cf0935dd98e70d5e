// SPDX-License-Identifier: Apache-2.0
// The tape: nodes left behind by ops, leaves with gradient sinks and hooks, and backward().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.hpp"

namespace bora {

/// Where an op may write the gradient of one input itself: a leaf's buffer.  Write all of it: `add`
/// false overwrites.
struct Sink {
  Tensor buffer;
  bool add = false;
  explicit operator bool() const { return buffer.defined(); }
};

/// Gradients on their way to the inputs of the node whose backward runs.
class InputGradients {
 public:
  virtual ~InputGradients() = default;
  virtual bool wants(int input) const = 0;
  /// The sink of a leaf input whose buffer has type `type`, or an empty Sink.  Once taken it must
  /// be written.
  virtual Sink take_sink(int input, DType type) = 0;
  /// The gradient that an input has got so far from other ops, for the op to add its own to in
  /// place and give() back; undefined if there is none, or if its bytes are shared.
  virtual Tensor take_partial(int input) = 0;
  /// Adds a gradient for an input (moved in; an undefined tensor means zero).
  virtual void give(int input, Tensor gradient) = 0;
};

/// One recorded op, or a leaf.  Sequence numbers grow in order of recording.
class Node {
 public:
  explicit Node(std::string name);
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const std::string& name() const { return name_; }
  uint64_t sequence() const { return sequence_; }
  const std::vector<std::shared_ptr<Node>>& inputs() const { return inputs_; }

  /// Computes input gradients from dy.  Runs with recording off.  Called once: backward releases
  /// what was saved.
  virtual void backward(const Tensor& dy, InputGradients& out) = 0;
  /// Frees saved tensors.
  virtual void release() {}

 protected:
  std::vector<std::shared_ptr<Node>> inputs_;  // nullptr where an input needs no gradient

 private:
  friend class BackwardPass;
  std::string name_;
  uint64_t sequence_;
  bool spent_ = false;  // a backward pass has used it
};

/// The end of the tape: a parameter, or an input whose gradient is wanted.
class Leaf final : public Node {
 public:
  explicit Leaf(std::string name) : Node(std::move(name)) {}

  /// The buffer that gradients go to.  Without set_gradient_buffer one is made at the first
  /// gradient.
  const Tensor& gradient() const { return gradient_; }
  void set_gradient_buffer(Tensor buffer) {
    gradient_ = std::move(buffer);
    filled_ = false;
  }
  /// False from clear_gradient() until the first contribution: that one overwrites, later ones add.
  bool has_gradient() const { return filled_; }
  void clear_gradient() { filled_ = false; }

  /// A copy of the value in f16 or bf16, which ops of class `half` read in its place under mixed
  /// precision (core/precision.hpp); undefined where there is none.  Its owner keeps it true.
  const Tensor& working() const { return working_; }
  void set_working(Tensor copy) { working_ = std::move(copy); }

  /// Runs when the last use of this leaf in a backward pass has contributed, while the pass goes
  /// on.
  void set_ready_hook(std::function<void(Leaf&)> hook) { hook_ = std::move(hook); }

  void backward(const Tensor& dy, InputGradients& out) override;

 private:
  friend class BackwardPass;
  Tensor gradient_;
  Tensor working_;
  bool filled_ = false;
  std::function<void(Leaf&)> hook_;
};

/// A tensor over the same bytes that is a leaf of the tape.  `name` shows in messages.
Tensor make_leaf(const Tensor& value, std::string name);
/// The leaf behind a tensor; throws if it is not one.
Leaf& leaf_of(const Tensor& tensor);

/// Whether ops of this thread leave nodes behind.
bool recording();

/// Switches recording off (or on) for this thread while it lives.
class RecordingScope {
 public:
  explicit RecordingScope(bool on);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  bool previous_;
};

struct NoGrad : RecordingScope {
  NoGrad() : RecordingScope(false) {}
};

/// Runs the tape from `root` down to the leaves.  `seed` is d(loss)/d(root), undefined means 1
/// (root must then have one element).  Gradients go to the leaves' buffers; each node's saved
/// tensors are freed after its use, so a second pass over the same nodes is an error.  Nodes run in
/// decreasing sequence order: the same order in each run. Errors name the op, its number and the
/// shape: "in backward of conv3d #41, dy (1, 8, 8, 8, 16) f32: ...".
void backward(const Tensor& root, const Tensor& seed = {});

/// As backward, without firing ready hooks: for the nested pass of recompute, whose outer node
/// fires them.
void backward_without_hooks(const Tensor& root, const Tensor& seed);

/// Called after each node of a backward pass (for polling communication); thread-local, empty =
/// none.
void set_backward_poll(std::function<void()> poll);

}  // namespace bora
