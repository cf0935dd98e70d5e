// SPDX-License-Identifier: Apache-2.0
// Memory, copies, streams and events.  Captures are in graph_cuda.cpp.
#include "kernels/cuda/backend_cuda.hpp"

#include <cmath>

#include "core/error.hpp"
#include "kernels/cuda/backend_state.hpp"
#include "kernels/cuda/elements.hpp"

namespace bora::kernels::cuda {

CudaBackend::CudaBackend() = default;
CudaBackend::~CudaBackend() = default;

CudaBackend::PerDevice::~PerDevice() {
  if (compute != nullptr) BORA_RUNTIME_WARN(cudaStreamDestroy(compute));
}

CudaBackend::EventPool::~EventPool() {
  for (cudaEvent_t event : free) BORA_RUNTIME_WARN(cudaEventDestroy(event));
}

CudaBackend::NativeEvent::~NativeEvent() {
  try {
    const std::lock_guard lock(pool->mutex);
    pool->free.push_back(event);
  } catch (const std::exception&) {  // no memory for the list: one event is lost
  }
}

CudaBackend::PerDevice& CudaBackend::of(Device device) {
  BORA_CHECK(device.type == DeviceType::cuda, "CUDA backend: asked for ", device);
  const std::lock_guard lock(mutex_);
  std::unique_ptr<PerDevice>& slot = devices_[device.index];
  if (slot == nullptr) {
    const DeviceGuard guard(device.index);  // throws where there is no such device
    auto fresh = std::make_unique<PerDevice>();
    fresh->events = std::make_shared<EventPool>();
    BORA_RUNTIME(cudaDeviceGetStreamPriorityRange(&fresh->least_urgent, &fresh->most_urgent));
    BORA_RUNTIME(
        cudaStreamCreateWithPriority(&fresh->compute, cudaStreamNonBlocking, fresh->least_urgent));
    slot = std::move(fresh);
  }
  return *slot;
}

void* CudaBackend::allocate(int64_t bytes, Device device) {
  refuse_in_capture("memory is taken from the device");
  const DeviceGuard guard(device.index);
  void* data = nullptr;
  const cudaError_t code = cudaMalloc(&data, static_cast<size_t>(bytes));
  if (code == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // not an error of what comes next
    size_t free = 0, total = 0;
    BORA_RUNTIME(cudaMemGetInfo(&free, &total));
    BORA_FAIL("out of memory on ", device, " (", device_description(device.index),
              "): ", bytes >> 20, " MiB were asked for, ", free >> 20, " of ", total >> 20,
              " MiB are free");
  }
  BORA_RUNTIME(code);
  ++n_.allocations;
  return data;
}

void CudaBackend::free(void* data, int64_t, Device device) noexcept {
  ++n_.frees;
  if (defer_in_capture(data)) return;
  try {
    const DeviceGuard guard(device.index);
    BORA_RUNTIME_WARN(cudaFree(data));
  } catch (const std::exception&) {  // a device that has failed: its memory is gone
  }
}

bool CudaBackend::is_pinned(const void* data, int64_t bytes) const {
  const char* const begin = static_cast<const char*>(data);
  const std::lock_guard lock(pinned_mutex_);
  auto after = pinned_.upper_bound(begin);
  if (after == pinned_.begin()) return false;
  const auto& [slab, size] = *std::prev(after);
  return begin + bytes <= slab + size;
}

void CudaBackend::copy(Stream stream, void* dst, Device dst_device, const void* src,
                       Device src_device, int64_t bytes) {
  const bool from_host = src_device.type == DeviceType::cpu;
  const bool to_host = dst_device.type == DeviceType::cpu;
  BORA_CHECK(!(from_host && to_host), "CUDA backend: copy from host to host");
  const void* const host = from_host ? src : to_host ? dst : nullptr;
  const bool blocks = host != nullptr && !is_pinned(host, bytes);
  if (blocks)
    refuse_in_capture(detail::join("a copy of ", bytes, " bytes ", from_host ? "from" : "to",
                                   " pageable host memory"));
  const DeviceGuard guard(stream.device.index);
  const cudaMemcpyKind kind = from_host                  ? cudaMemcpyHostToDevice
                              : to_host                  ? cudaMemcpyDeviceToHost
                              : dst_device == src_device ? cudaMemcpyDeviceToDevice
                                                         : cudaMemcpyDefault;
  BORA_RUNTIME(cudaMemcpyAsync(dst, src, static_cast<size_t>(bytes), kind, native(stream)));
  // CUDA says of pageable memory only that the call "might be synchronous": where the device reads
  // the host's page tables (HMM, Grace) it need not be.
  if (blocks) BORA_RUNTIME(cudaStreamSynchronize(native(stream)));
  ++(blocks ? n_.blocking_copies : n_.copies);
}

void CudaBackend::fill(Stream stream, void* dst, DType type, double value, int64_t n) {
  if (n == 0) return;
  const DeviceGuard guard(stream.device.index);
  const bool zero = value == 0.0 && !std::signbit(value);
  if (zero || type == DType::u8) {
    const int byte = zero ? 0 : static_cast<int>(static_cast<uint8_t>(value));
    BORA_RUNTIME(
        cudaMemsetAsync(dst, byte, static_cast<size_t>(n * size_of(type)), native(stream)));
  } else {
    fill_elements(stream, dst, type, value, n);
  }
}

void CudaBackend::cast(Stream stream, void* dst, DType dst_type, const void* src, DType src_type,
                       int64_t n) {
  const DeviceGuard guard(stream.device.index);
  cast_elements(stream, dst, dst_type, src, src_type, n);
}

void CudaBackend::accumulate(Stream stream, void* dst, DType dst_type, const void* src,
                             DType src_type, int64_t n) {
  const DeviceGuard guard(stream.device.index);
  accumulate_elements(stream, dst, dst_type, src, src_type, n);
}

Stream CudaBackend::default_stream(Device device) { return {device, of(device).compute}; }

Stream CudaBackend::make_stream(Device device, bool urgent) {
  const PerDevice& d = of(device);
  const DeviceGuard guard(device.index);
  cudaStream_t stream = nullptr;
  BORA_RUNTIME(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                            urgent ? d.most_urgent : d.least_urgent));
  return {device, stream};
}

void CudaBackend::destroy_stream(Stream stream) noexcept {
  try {
    const DeviceGuard guard(stream.device.index);
    if (native(stream) != of(stream.device).compute)
      BORA_RUNTIME_WARN(cudaStreamDestroy(native(stream)));
  } catch (const std::exception&) {  // a device that has failed: its streams are gone
  }
}

Event CudaBackend::record(Stream stream) {
  const std::shared_ptr<EventPool>& pool = of(stream.device).events;
  const DeviceGuard guard(stream.device.index);
  auto event = std::make_shared<NativeEvent>();
  event->pool = pool;
  {
    const std::lock_guard lock(pool->mutex);
    if (!pool->free.empty()) {
      event->event = pool->free.back();
      pool->free.pop_back();
    }
  }
  if (event->event == nullptr)
    BORA_RUNTIME(cudaEventCreateWithFlags(&event->event, cudaEventDisableTiming));
  BORA_RUNTIME(cudaEventRecord(event->event, native(stream)));
  event->capture = capture_of(stream);
  ++n_.records;
  return Event(stream.device, event);
}

void CudaBackend::wait(Stream stream, const Event& event) {
  if (event.native() == nullptr) return;  // done always
  const auto& e = *static_cast<const NativeEvent*>(event.native());
  const DeviceGuard guard(stream.device.index);
  if (e.capture != nullptr && !e.capture->open) {
    // What was captured runs where the graph is launched.  That is behind the event for the stream
    // itself; others wait for all that has been launched there.
    const Stream origin = e.capture->origin;
    if (native(stream) != native(origin) && capture_of(stream) == nullptr &&
        capture_of(origin) == nullptr)
      wait(stream, record(origin));
    return;
  }
  // Replays would not wait for it.
  if (e.capture == nullptr && capture_of(stream) != nullptr)
    refuse_in_capture("a captured stream waits for work issued before the capture");
  BORA_RUNTIME(cudaStreamWaitEvent(native(stream), e.event, 0));
  if (e.capture != nullptr) join_capture(stream, e.capture);
  ++n_.waits;
}

bool CudaBackend::done(const Event& event) {
  if (event.native() == nullptr) return true;
  const auto& e = *static_cast<const NativeEvent*>(event.native());
  if (e.capture != nullptr) return !e.capture->open;
  const DeviceGuard guard(event.device().index);
  const RelaxedCapture relaxed;  // looking at work outside a capture does not disturb it
  const cudaError_t code = cudaEventQuery(e.event);
  if (code == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // "not ready" is no error for those who look later
    return false;
  }
  BORA_RUNTIME(code);
  return true;
}

void CudaBackend::synchronize(Stream stream) {
  refuse_in_capture("the host waits for a stream");
  const DeviceGuard guard(stream.device.index);
  ++n_.synchronizes;
  BORA_RUNTIME(cudaStreamSynchronize(native(stream)));
}

void CudaBackend::synchronize(const Event& event) {
  if (event.native() == nullptr) return;
  refuse_in_capture("the host waits for an event");
  const auto& e = *static_cast<const NativeEvent*>(event.native());
  if (e.capture != nullptr) return synchronize(e.capture->origin);  // as wait()
  const DeviceGuard guard(event.device().index);
  ++n_.synchronizes;
  BORA_RUNTIME(cudaEventSynchronize(e.event));
}

// Pinned memory is every device's, but taking it makes a context on the thread's: not on device 0,
// where a thread stands that has chosen none.
int CudaBackend::home_device() {
  const std::lock_guard lock(mutex_);
  int current = 0;
  BORA_RUNTIME(cudaGetDevice(&current));
  return devices_.empty() || devices_.contains(current) ? current : devices_.begin()->first;
}

void* CudaBackend::allocate_pinned(int64_t bytes) {
  refuse_in_capture("pinned memory is taken");
  const DeviceGuard guard(home_device());
  void* data = nullptr;
  const cudaError_t code = cudaHostAlloc(&data, static_cast<size_t>(bytes), cudaHostAllocPortable);
  BORA_CHECK(code == cudaSuccess, "pinned host memory: ", bytes >> 10,
             " KiB were asked for: ", RuntimeStatus::text(code),
             "; the limit of locked memory (ulimit -l) or the machine's memory is used up");
  const std::lock_guard lock(pinned_mutex_);
  pinned_[static_cast<const char*>(data)] = bytes;
  ++n_.pinned_allocations;
  return data;
}

void CudaBackend::free_pinned(void* data, int64_t) noexcept {
  {
    const std::lock_guard lock(pinned_mutex_);
    pinned_.erase(static_cast<const char*>(data));
  }
  try {
    const DeviceGuard guard(home_device());
    BORA_RUNTIME_WARN(cudaFreeHost(data));
  } catch (const std::exception&) {  // a device that has failed
  }
}

DeviceCounters CudaBackend::counters() const {
  return {.allocations = n_.allocations,
          .frees = n_.frees,
          .pinned_allocations = n_.pinned_allocations,
          .copies = n_.copies,
          .blocking_copies = n_.blocking_copies,
          .records = n_.records,
          .waits = n_.waits,
          .synchronizes = n_.synchronizes,
          .captures = n_.captures,
          .graph_launches = n_.graph_launches};
}

}  // namespace bora::kernels::cuda
