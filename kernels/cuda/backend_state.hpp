// SPDX-License-Identifier: Apache-2.0
// Inner header of kernels/cuda: what the backend keeps behind streams and events, and captures.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/cuda/backend_cuda.hpp"
#include "kernels/cuda/runtime.hpp"

namespace bora::kernels::cuda {

/// A capture by one thread.  Events that were recorded in it keep it.
struct Capture {
  Stream origin;
  std::vector<Stream> joined;                ///< streams that wait for its events, the origin first
  std::string broken;                        ///< the first thing asked for that cannot be captured
  std::vector<std::pair<void*, int>> frees;  ///< memory and device, to be freed at its end
  std::atomic<bool> open{true};
};

/// The calling thread's capture that `stream` takes part in, or nullptr.
std::shared_ptr<Capture> capture_of(Stream stream);
/// `stream` has been made to wait for an event of `capture`: its work is written down from now on.
void join_capture(Stream stream, const std::shared_ptr<Capture>& capture);
/// Throws Error if the calling thread has a capture open, which is broken then.
void refuse_in_capture(const std::string& what);
/// With a capture open: keeps the memory for its end and returns true.
bool defer_in_capture(void* data) noexcept;

/// While it lives, this thread's calls that have nothing to do with its capture do not break it.
class RelaxedCapture {
 public:
  RelaxedCapture() { BORA_RUNTIME(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~RelaxedCapture() { BORA_RUNTIME_WARN(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

struct CudaBackend::PerDevice {
  ~PerDevice();
  cudaStream_t compute = nullptr;
  int least_urgent = 0, most_urgent = 0;
  std::shared_ptr<EventPool> events;
};

struct CudaBackend::EventPool {
  ~EventPool();
  std::mutex mutex;
  std::vector<cudaEvent_t> free;
};

/// What Event::native() points to; the event goes back to its pool with the last copy.
struct CudaBackend::NativeEvent {
  ~NativeEvent();
  cudaEvent_t event = nullptr;
  std::shared_ptr<EventPool> pool;
  std::shared_ptr<Capture> capture;  // that it was recorded in
};

inline cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream.native); }

}  // namespace bora::kernels::cuda
