// SPDX-License-Identifier: Apache-2.0
// Captures and graphs of the double: what a captured stream is given is written down in the order
// of the calls, and a launch runs it in that order as one task.
#include <utility>

#include "tests/nccl_double/cuda_double.hpp"
#include "tests/nccl_double/nccl_double.hpp"

struct CUgraphExec_st {
  CUgraph_st graph;
};

namespace bora::nccl_double {
namespace {

thread_local std::shared_ptr<CaptureDouble> t_capture;
thread_local cudaStreamCaptureMode t_mode = cudaStreamCaptureModeGlobal;
std::atomic<int64_t> g_graphs{0};

}  // namespace

CaptureDouble* forbidding_capture() {
  return t_mode == cudaStreamCaptureModeRelaxed ? nullptr : t_capture.get();
}

cudaError_t forbidden_in_capture() {
  CaptureDouble* const capture = forbidding_capture();
  if (capture == nullptr) return cudaSuccess;
  capture->broken = cudaErrorStreamCaptureInvalidated;
  return failed(cudaErrorStreamCaptureUnsupported);
}

int64_t live_graphs() { return g_graphs; }

}  // namespace bora::nccl_double

using namespace bora::nccl_double;  // the definitions below are the runtime's own names

extern "C" {

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, t_mode);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream == nullptr || t_capture) return failed(cudaErrorStreamCaptureUnsupported);
  t_capture = std::make_shared<CaptureDouble>();
  t_capture->origin = stream;
  stream->capture = t_capture;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (!t_capture || t_capture->origin != stream) return failed(cudaErrorIllegalState);
  const auto capture = std::exchange(t_capture, nullptr);
  bool joined = true;
  for (const auto& [other, tasks] : capture->tasks) {
    if (other != stream && capture->after[stream][other] < tasks) joined = false;
    other->capture.reset();
  }
  for (const auto& [other, after] : capture->after) other->capture.reset();
  stream->capture.reset();
  if (capture->broken != cudaSuccess) return failed(capture->broken);
  if (!joined) return failed(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st(std::move(capture->graph));
  ++g_graphs;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  *executable = new CUgraphExec_st{*graph};
  ++g_graphs;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  stream_of(stream).enqueue([tasks = executable->graph.tasks] {
    for (const auto& task : tasks) task();
  });
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  --g_graphs;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  --g_graphs;
  return cudaSuccess;
}

}  // extern "C"
