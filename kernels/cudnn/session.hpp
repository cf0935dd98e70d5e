// SPDX-License-Identifier: Apache-2.0
// What a host thread needs to run plans on one stream: cuDNN's handle and one piece of scratch.
#pragma once

#include <utility>
#include <vector>

#include "core/tensor.hpp"
#include "kernels/cudnn/plans.hpp"

namespace bora::kernels::cudnn {

class Session {
 public:
  /// The calling thread's session for `stream`, made when first asked for.  Throws Error with
  /// cuDNN's or CUDA's reason if there is no device.
  static Session& of(Stream stream);

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// A tensor of a graph: its number (kIdX ...) and where its bytes are.
  using Binding = std::pair<int64_t, const void*>;
  /// Makes room for the plan's scratch, where the caller's tensors come from: execute() takes none.
  void prepare(const ConvPlan& plan) { workspace(plan.workspace, capturing()); }
  /// Issues the plan to the stream.
  void execute(const ConvPlan& plan, const std::vector<Binding>& tensors);
  /// Whether the stream's work is being written down instead of run.
  bool capturing() const;
  Stream stream() const { return stream_; }

 private:
  explicit Session(Stream stream);
  static void destroy(cudnnHandle_t handle) noexcept;
  /// Scratch of at least `bytes`; throws Error if it would have to grow during a capture.
  void* workspace(int64_t bytes, bool in_capture);

  Stream stream_;
  Handle<cudnnHandle_t, &Session::destroy> handle_;
  Tensor workspace_;
  bool captured_ = false;     // a graph holds the address of workspace_
  std::vector<Tensor> kept_;  // those that graphs hold: they may be launched as long as the session
};

}  // namespace bora::kernels::cudnn
