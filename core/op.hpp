// SPDX-License-Identifier: Apache-2.0
// Op: how a differentiable function is written, and apply(), which runs and records it.
#pragma once

#include <array>
#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/allocator.hpp"
#include "core/finite_watch.hpp"
#include "core/precision.hpp"
#include "core/profile.hpp"
#include "core/rng.hpp"
#include "core/tape.hpp"

namespace bora {

struct OpInfo {
  const char* name;
  Precision precision;
};

namespace detail {

/// For the profile: bytes of what an op reads or writes once.
inline double bytes_of(const Tensor& t) {
  return t.defined() ? static_cast<double>(t.bytes()) : 0.0;
}
inline double bytes_of(const Tensor* t) { return bytes_of(*t); }
template <class List>
double bytes_of(const List& list) {
  double sum = 0;
  for (const auto& t : list) sum += bytes_of(t);
  return sum;
}

}  // namespace detail

/// What an op sees while it runs.  In forward: what to save, whether anything is recorded.  In
/// backward: what was saved, which gradients are wanted, and where they may be written.
class OpContext {
 public:
  explicit OpContext(Device device, bool records, std::vector<bool> wants)
      : device_(device), records_(records), wants_(std::move(wants)) {}

  Stream stream() const { return current_stream(device_); }
  Tensor like(const Tensor& t) const { return Tensor::empty(t.shape(), t.dtype(), t.device()); }
  Tensor empty(const Shape& shape, DType type) const { return Tensor::empty(shape, type, device_); }

  /// Forward: whether a node will be left behind.
  bool records() const { return records_; }
  /// Is the gradient of input i wanted?  In forward and in backward.
  bool wants(int i) const { return wants_.at(static_cast<size_t>(i)); }

  /// Forward: keeps tensors for backward, in this order (without their place on the tape).  Nothing
  /// if nothing is recorded.
  template <class... Tensors>
  void save(const Tensors&... tensors) {
    if (records_) (saved_.push_back(tensors.detach()), ...);
  }
  /// Backward: the i-th saved tensor.
  const Tensor& saved(int i) const {
    BORA_CHECK(static_cast<size_t>(i) < saved_.size(), "saved tensor ", i, " of ", saved_.size(),
               ": freed already (a second backward over the same nodes?)");
    return saved_[static_cast<size_t>(i)];
  }
  void release() { saved_.clear(); }
  double saved_bytes() const { return detail::bytes_of(saved_); }

  /// Backward: the place where the gradient of input i should be written by the op itself, if it is
  /// a leaf whose buffer has type `type`; else empty, and the gradient is returned.  Once taken it
  /// must be written wholly.
  Sink sink(int i, DType type) { return out_ ? out_->take_sink(i, type) : Sink{}; }

  /// Backward: the gradient of input i so far, of which there is one where another op that reads
  /// the same tensor has run already, and its bytes are nobody else's; else undefined.  Once taken,
  /// the op adds its own in place and returns it: one pass less over memory.
  Tensor partial(int i) { return out_ ? out_->take_partial(i) : Tensor(); }

  /// Forward: a fresh random key for this node (the same when recompute runs the op again).  Keep
  /// it in the op.
  RngKey rng() { return next_rng_key(); }

  void begin_backward(InputGradients* out) { out_ = out; }

 private:
  Device device_;
  bool records_;
  std::vector<bool> wants_;
  std::vector<Tensor> saved_;
  InputGradients* out_ = nullptr;
};

namespace detail {

template <class OpT>
class OpNode final : public Node {
 public:
  OpNode(OpT op, OpContext context, std::vector<std::shared_ptr<Node>> inputs)
      : Node(OpT::info.name), op_(std::move(op)), context_(std::move(context)) {
    inputs_ = std::move(inputs);
  }

  void backward(const Tensor& dy, InputGradients& out) override {
    static const std::string range = std::string(OpT::info.name) + ".backward";
    const ScopedRange profile(range.c_str());
    const AllocationTag tag(range.c_str());
    context_.begin_backward(&out);
    auto gradients = op_.backward(context_, dy);
    if (profile_enabled())
      profile_add_work(0, bytes_of(dy) + context_.saved_bytes() + bytes_of(gradients));
    distribute(std::move(gradients), out);
    context_.begin_backward(nullptr);
  }
  void release() override { context_.release(); }

 private:
  static void distribute(Tensor gradient, InputGradients& out) { out.give(0, std::move(gradient)); }
  template <size_t N>
  static void distribute(std::array<Tensor, N> gradients, InputGradients& out) {
    for (size_t i = 0; i < N; ++i) out.give(static_cast<int>(i), std::move(gradients[i]));
  }
  static void distribute(std::vector<Tensor> gradients, InputGradients& out) {
    for (size_t i = 0; i < gradients.size(); ++i)
      out.give(static_cast<int>(i), std::move(gradients[i]));
  }

  OpT op_;
  OpContext context_;
};

template <class OpT, class Forward>
Tensor run_op(OpT op, const std::vector<const Tensor*>& inputs, Forward&& forward) {
  bool records = false;
  std::vector<bool> wants(inputs.size());
  Device device;
  bool first = true;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& x = *inputs[i];
    wants[i] = recording() && x.requires_grad();
    records = records || wants[i];
    if (!x.defined()) continue;
    BORA_CHECK(first || x.device() == device, OpT::info.name, ": input ", i, " is on ", x.device(),
               ", an earlier one is on ", device);
    device = x.device();
    first = false;
  }
  BORA_CHECK(!first, OpT::info.name, ": no input is defined");
  const ScopedRange profile(OpT::info.name);
  const AllocationTag tag(OpT::info.name);
  OpContext context(device, records, std::move(wants));
  Tensor y;
  {
    const NoGrad no_grad;  // what an op does inside is not recorded; its node is
    y = forward(op, context);
  }
  if (profile_enabled()) profile_add_work(0, bytes_of(inputs) + bytes_of(y));
  FiniteWatch::see(OpT::info.name, y);
  if (!records) return y.detach();
  std::vector<std::shared_ptr<Node>> edges(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (context.wants(static_cast<int>(i))) edges[i] = inputs[i]->node();
  return y.detach().with_node(
      std::make_shared<OpNode<OpT>>(std::move(op), std::move(context), std::move(edges)));
}

}  // namespace detail

/// An op is a value with
///   static constexpr OpInfo info;
///   Tensor forward(OpContext&, const Tensor&...)                         (may change the op's own
///   fields) Tensor | std::array<Tensor, N> | std::vector<Tensor> backward(OpContext&, const
///   Tensor& dy)
/// A gradient that is not wanted, or was written to its sink, is returned as an undefined tensor.
/// apply runs forward, measures it, and records a node if any input has a place on the tape and
/// recording is on.
/// Under mixed precision (core/precision.hpp) the op sees its inputs in the type of its class.
template <class OpT, std::same_as<Tensor>... In>
Tensor apply(OpT op, const In&... inputs) {
  const auto run = [&](const In&... x) {
    return detail::run_op(std::move(op), {&x...},
                          [&](OpT& o, OpContext& c) { return o.forward(c, x...); });
  };
  if constexpr (OpT::info.precision == Precision::follow) {
    return run(inputs...);
  } else {
    return run(autocast(OpT::info.precision, inputs)...);
  }
}

/// The same for ops over a list: forward(OpContext&, const std::vector<Tensor>&), backward returns
/// std::vector<Tensor>.  Class `follow` only.
template <class OpT>
Tensor apply_list(OpT op, const std::vector<Tensor>& inputs) {
  static_assert(OpT::info.precision == Precision::follow);
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : inputs) pointers.push_back(&t);
  return detail::run_op(std::move(op), pointers,
                        [&](OpT& o, OpContext& c) { return o.forward(c, inputs); });
}

}  // namespace bora
