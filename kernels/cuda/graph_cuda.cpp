// SPDX-License-Identifier: Apache-2.0
// Captures and graphs of the CUDA backend.  Captures are of the calling thread only (thread-local
// mode): the watcher of a communicator asks for the state of its events meanwhile.
#include <algorithm>

#include "core/error.hpp"
#include "kernels/cuda/backend_state.hpp"

namespace bora::kernels::cuda {
namespace {

thread_local std::shared_ptr<Capture> t_capture;

/// What CUDA's codes about captures mean here.
std::string explanation(cudaError_t code) {
  switch (code) {
    case cudaErrorStreamCaptureUnjoined:
      return "; a stream that waited for the captured one has not been waited for in turn";
    case cudaErrorStreamCaptureImplicit:
      return "; something used the legacy default stream";
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureUnsupported:
      return "; a library called a function that cannot be captured, such as one that allocates, "
             "waits, or copies from pageable memory";
    case cudaErrorStreamCaptureIsolation:
      return "; the captured work depends on work issued before it on another stream";
    default:
      return {};
  }
}

}  // namespace

std::shared_ptr<Capture> capture_of(Stream stream) {
  if (!t_capture) return nullptr;
  const auto& joined = t_capture->joined;
  const bool member = std::any_of(joined.begin(), joined.end(),
                                  [&](Stream s) { return s.native == stream.native; });
  return member ? t_capture : nullptr;
}

void join_capture(Stream stream, const std::shared_ptr<Capture>& capture) {
  if (capture == t_capture && capture_of(stream) == nullptr) capture->joined.push_back(stream);
}

void refuse_in_capture(const std::string& what) {
  if (!t_capture) return;
  if (t_capture->broken.empty()) t_capture->broken = what;
  BORA_FAIL("cannot be captured: ", what);
}

bool defer_in_capture(void* data) noexcept {
  if (!t_capture) return false;
  try {
    t_capture->frees.emplace_back(data, t_capture->origin.device.index);
  } catch (const std::exception&) {  // no memory for the list: the device's memory is lost
  }
  return true;
}

void CudaBackend::begin_capture(Stream stream) {
  BORA_CHECK(!t_capture, "begin_capture: this thread captures already");
  const DeviceGuard guard(stream.device.index);
  BORA_RUNTIME(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal));
  t_capture = std::make_shared<Capture>();
  t_capture->origin = stream;
  t_capture->joined = {stream};
  ++n_.captures;
}

Graph CudaBackend::end_capture(Stream stream) {
  BORA_CHECK(t_capture && t_capture->origin.native == stream.native,
             "end_capture: this thread does not capture this stream");
  const DeviceGuard guard(stream.device.index);
  const std::shared_ptr<Capture> capture = std::move(t_capture);
  t_capture.reset();
  capture->open = false;
  cudaGraph_t graph = nullptr;
  const cudaError_t code = cudaStreamEndCapture(native(stream), &graph);
  // Also where the reason is another one: the next check of a launch must not take it for its own.
  if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
  const std::shared_ptr<void> owner(graph, [](void* g) {
    if (g != nullptr) BORA_RUNTIME_WARN(cudaGraphDestroy(static_cast<cudaGraph_t>(g)));
  });
  for (const auto& [data, device] : capture->frees) BORA_RUNTIME_WARN(cudaFree(data));
  BORA_CHECK(capture->broken.empty(), "the work cannot be captured: ", capture->broken);
  BORA_CHECK(code == cudaSuccess, "the work cannot be captured: ", RuntimeStatus::text(code),
             explanation(code));
  cudaGraphExec_t executable = nullptr;
  BORA_RUNTIME(cudaGraphInstantiate(&executable, graph, 0));
  return Graph(stream.device, std::shared_ptr<void>(executable, [](void* e) {
                 BORA_RUNTIME_WARN(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(e)));
               }));
}

void CudaBackend::launch(Stream stream, const Graph& graph) {
  BORA_CHECK(graph.defined() && graph.device() == stream.device, "launch: wants a graph of ",
             stream.device);
  const DeviceGuard guard(stream.device.index);
  BORA_RUNTIME(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph.native()), native(stream)));
  ++n_.graph_launches;
}

}  // namespace bora::kernels::cuda
