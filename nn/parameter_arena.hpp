// SPDX-License-Identifier: Apache-2.0
// ParameterArena: all parameters of a module in one flat buffer, their gradients in another.
#pragma once

#include <string>
#include <vector>

#include "core/flat_buffer.hpp"
#include "core/tape.hpp"
#include "nn/module.hpp"

namespace bora::nn {

/// Lays the parameters out in reverse forward order (so the gradients that are ready first lie
/// first: a bucket of the gradient all-reduce is a range), each at a multiple of 256 bytes, and
/// makes each a leaf whose gradient is a range of `gradients`.  The module's buffers (running
/// statistics) move to the arena's device.  The module must outlive the arena or not be used after
/// it.  Addresses never change.
class ParameterArena {
 public:
  /// type: f32, or f64 for gradient checks.  working: f16 or bf16 for a copy of all values that
  /// mixed precision computes with (core/precision.hpp), or `type` for none.
  ParameterArena(Module& module, DType type, Device device = cpu());
  /// gradient_memory: where the gradients lie, asked once for their bytes; empty: ordinary memory.
  /// Memory that ranks share (comm/communicator.hpp) saves an all-reduction its copies.
  ParameterArena(Module& module, DType type, DType working, Device device = cpu(),
                 const MemorySource& gradient_memory = {});

  const FlatLayout& layout() const { return values_.layout(); }
  FlatBuffer& values() { return values_; }
  bool has_working() const { return working_.all().defined(); }
  /// The copy, if there is one.  The optimizer writes it beside `values`; whoever else writes
  /// values (initialisation, a checkpoint, a broadcast) calls refresh_working() afterwards.
  FlatBuffer& working() { return working_; }
  void refresh_working();
  FlatBuffer& gradients() { return gradients_; }
  const FlatBuffer& gradients() const { return gradients_; }
  DType type() const { return values_.all().dtype(); }
  Device device() const { return values_.all().device(); }
  /// Leaf of range i.
  const std::vector<Leaf*>& leaves() const { return leaves_; }
  /// Whether weight decay is meant for range i.
  bool decays(int i) const { return decays_.at(static_cast<size_t>(i)); }

  /// The next contribution to each gradient overwrites.  No memory is touched.
  void clear_gradients();
  /// Names of parameters without a gradient since clear_gradients().
  std::vector<std::string> missing_gradients() const;
  /// Fills those with zero.
  void zero_missing_gradients();

 private:
  FlatBuffer values_, working_, gradients_;
  std::vector<Leaf*> leaves_;
  std::vector<std::shared_ptr<Node>> nodes_;  // keep the leaves alive
  std::vector<bool> decays_;
};

}  // namespace bora::nn
