// SPDX-License-Identifier: Apache-2.0
// StepGraph: a step that is run, then captured, then replayed as one launch.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/allocator.hpp"
#include "core/tensor.hpp"

namespace bora {

struct StepGraphOptions {
  bool enabled = true;  ///< false: always eager
  /// Eager runs of a variant before it is captured, at least 2: what is made on first use and stays
  /// comes into being in the first, the second shows how much scratch memory the capture needs.
  int warm_up = 3;
};

/// Starting some hundred kernels costs the host more time than small ones take.  A StepGraph runs a
/// step eagerly a few times, captures it, and from then on launches the capture: the same kernels
/// with the same arguments, so the same bits.  What the host does inside the step happens in eager
/// runs and in the capture only.
///
/// A step may
///  - read and write persistent memory (parameters, gradients, input buffers, scalars) at addresses
///    that stay,
///  - allocate scratch, which must be freed when it returns: it comes from a pool of the graph's
///  own,
///    in which nothing else lives; what it returns is copied to memory that stays.
/// It may not wait, read values back, take device memory, copy from or to pageable memory, wait for
/// events of work issued before it, or draw random numbers (a replay would draw the same).  Where
/// it does, where the device has no graphs, or where its inputs are others than at the capture, it
/// runs eagerly: the log says so once, with the reason.
///
/// Steps that differ (the last micro-step of a window and those before it) are variants, captured
/// each for itself; they share the pool, so on one stream only.  One thread.
class StepGraph {
 public:
  /// The step; returns what the caller wants to see of it (a loss).
  using Body = std::function<std::vector<Tensor>()>;

  explicit StepGraph(Device device, const StepGraphOptions& options = {});
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  /// Runs the step on the current stream, in one of the three ways.  `inputs`: tensors of the
  /// caller that it reads, whose addresses, shapes and types must be those of the capture.
  /// `restart` undoes on the host what a body did that a failed capture broke off; then it runs
  /// again. Returns the body's results, which the next run of the variant overwrites; on devices
  /// without graphs its very results.
  std::vector<Tensor> run(const std::string& variant, const std::vector<Tensor>& inputs,
                          const Body& body, const std::function<void()>& restart = {});

  /// What became of a variant's latest run.
  enum class Way { eager, captured, replayed };
  Way way(const std::string& variant) const;
  /// Why a variant is not replayed, or was not the latest time; empty where it was, or warms up.
  std::string why_eager(const std::string& variant) const;
  /// Forgets all captures: for changes that they cannot follow.  Waits for the device.
  void reset();
  /// Of the pool.
  MemoryStats memory() const { return pool_->stats(); }

 private:
  struct Variant;
  std::vector<Tensor> warm_up(const std::string& name, Variant& v, const Body& body);
  bool capture(const std::string& name, Variant& v, const std::vector<Tensor>& inputs,
               const Body& body);
  void keep_results(Variant& v, std::vector<Tensor> results);
  void give_up(const std::string& name, Variant& v, const std::string& reason);
  void forget_graphs();

  Device device_;
  StepGraphOptions options_;
  std::shared_ptr<CachingAllocator> pool_;
  std::map<std::string, std::unique_ptr<Variant>> variants_;
};

}  // namespace bora
