// SPDX-License-Identifier: Apache-2.0
// Events of the double's runtime, and streams that wait for them.
#include "tests/nccl_double/cuda_double.hpp"

#include <algorithm>

using namespace bora::nccl_double;  // the definitions below are the runtime's own names

namespace {

/// A place in a stream that work has or has not reached.
struct Mark {
  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false;
  void reach() {
    const std::lock_guard lock(mutex);
    reached = true;
    changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reached; });
  }
  bool is_reached() {
    const std::lock_guard lock(mutex);
    return reached;
  }
};

}  // namespace

struct CUevent_st {
  std::mutex mutex;
  std::shared_ptr<Mark> mark;  // of the latest record; a wait holds on to the one it was given
  // Where the latest record was in a capture: that, the stream, and its tasks until then.
  std::shared_ptr<CaptureDouble> capture;
  CUstream_st* stream = nullptr;
  int64_t tasks = 0;
  std::shared_ptr<Mark> latest() {
    const std::lock_guard lock(mutex);
    return mark;
  }
};

extern "C" {

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  CUstream_st& s = stream_of(stream);
  if (event->capture) {
    s.capture = event->capture;
    auto& after = s.capture->after;
    after[&s][event->stream] = std::max(after[&s][event->stream], event->tasks);
    for (const auto& [other, tasks] : after[event->stream])
      after[&s][other] = std::max(after[&s][other], tasks);
    return cudaSuccess;
  }
  if (s.capture) {
    s.capture->broken = cudaErrorStreamCaptureInvalidated;
    return failed(cudaErrorStreamCaptureIsolation);
  }
  if (const std::shared_ptr<Mark> mark = event->latest())
    stream_of(stream).enqueue([mark] { mark->wait(); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  *event = new CUevent_st;
  ++g_events;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  --g_events;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  CUstream_st& s = stream_of(stream);
  event->capture = s.capture;
  if (s.capture) {
    event->stream = &s;
    event->tasks = s.capture->tasks[&s];
    return cudaSuccess;
  }
  const auto mark = std::make_shared<Mark>();
  {
    const std::lock_guard lock(event->mutex);
    event->mark = mark;
  }
  stream_of(stream).enqueue([mark] { mark->reach(); });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const cudaError_t code = forbidden_in_capture()) return code;
  const std::shared_ptr<Mark> mark = event->latest();
  return !mark || mark->is_reached() ? cudaSuccess : failed(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const cudaError_t code = forbidden_in_capture()) return code;
  if (const std::shared_ptr<Mark> mark = event->latest()) mark->wait();
  return cudaSuccess;
}

}  // extern "C"
