// SPDX-License-Identifier: Apache-2.0
#include "tests/nccl_double/cuda_double.hpp"

#include "core/fnv.hpp"
#include "tests/nccl_double/nccl_double.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace bora::nccl_double {

std::atomic<int64_t> g_streams{0}, g_events{0}, g_allocations{0}, g_pinned{0};

namespace {

constexpr int kMaxDevices = 16;
std::mutex g_mutex;
std::vector<std::string> g_uuids = {"0", "1", "2", "3", "4", "5", "6", "7"};
std::array<std::atomic<int64_t>, kMaxDevices> g_uses{};
thread_local int t_device = 0;
thread_local cudaError_t t_last = cudaSuccess;

std::map<const char*, size_t> g_page_locked;  // pinned and device memory, for copies' sake
int g_driver = CUDART_VERSION;
int64_t g_memory_limit = INT64_MAX, g_pinned_limit = INT64_MAX;

bool is_pageable(const void* data) {
  const std::lock_guard lock(g_mutex);
  const char* const p = static_cast<const char*>(data);
  const auto after = g_page_locked.upper_bound(p);
  return after == g_page_locked.begin() || p >= std::prev(after)->first + std::prev(after)->second;
}

void* take(size_t bytes) {
  void* const data = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  const std::lock_guard lock(g_mutex);
  if (data != nullptr) g_page_locked[static_cast<const char*>(data)] = bytes;
  return data;
}

void give_back(void* data) {
  {
    const std::lock_guard lock(g_mutex);
    g_page_locked.erase(static_cast<const char*>(data));
  }
  std::free(data);
}

}  // namespace

cudaError_t failed(cudaError_t code) {
  t_last = code;
  return code;
}

void set_driver_version(int version) { g_driver = version; }
void set_memory_limits(int64_t device_bytes, int64_t pinned_bytes) {
  g_memory_limit = device_bytes;
  g_pinned_limit = pinned_bytes;
}
int64_t live_streams() { return g_streams; }
int64_t live_events() { return g_events; }
int64_t live_pinned() { return g_pinned; }
int priority_of(void* stream) { return static_cast<CUstream_st*>(stream)->priority; }

void set_devices(const std::vector<std::string>& uuids) {
  const std::lock_guard lock(g_mutex);
  g_uuids = uuids;
}

int64_t uses_of_device(int device) { return g_uses.at(static_cast<size_t>(device)); }

CUstream_st& stream_of(cudaStream_t stream) {
  if (stream != nullptr) return *stream;
  static std::map<int, CUstream_st*> defaults;  // live as long as the process, as a device's do
  const std::lock_guard lock(g_mutex);
  CUstream_st*& found = defaults[t_device];
  if (found == nullptr) {
    found = new CUstream_st(t_device);
    --g_streams;  // nobody made it
  }
  return *found;
}

}  // namespace bora::nccl_double

using namespace bora::nccl_double;  // the definitions below are the runtime's own names

CUstream_st::CUstream_st(int device_index, int priority_wanted)
    : device(device_index), priority(priority_wanted), thread_([this] { run(); }) {
  ++g_streams;
  ++g_uses.at(static_cast<size_t>(device));
}

CUstream_st::~CUstream_st() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
  --g_streams;
}

void CUstream_st::enqueue(std::function<void()> task) {
  if (capture) {
    ++capture->tasks[this];
    capture->graph.tasks.push_back(std::move(task));
    return;
  }
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

void CUstream_st::synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return tasks_.empty() && !busy_; });
}

void CUstream_st::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !tasks_.empty() || stop_; });
    if (tasks_.empty()) return;
    const auto task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    lock.unlock();
    task();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  const std::lock_guard lock(g_mutex);
  // As the real one: count stays as it was.
  if (g_driver < CUDART_VERSION / 1000 * 1000) return failed(cudaErrorInsufficientDriver);
  if (g_uuids.empty()) return failed(cudaErrorNoDevice);
  *count = static_cast<int>(g_uuids.size());
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  const std::lock_guard lock(g_mutex);
  if (device < 0 || device >= static_cast<int>(g_uuids.size()))
    return failed(cudaErrorInvalidDevice);
  t_device = device;
  ++g_uses.at(static_cast<size_t>(device));  // as the real one from CUDA 12 on: makes a context
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = t_device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const std::lock_guard lock(g_mutex);
  if (device < 0 || device >= static_cast<int>(g_uuids.size()))
    return failed(cudaErrorInvalidDevice);
  std::memset(properties, 0, sizeof(*properties));
  std::strcpy(properties->name, "double of a device");
  properties->totalGlobalMem = size_t{141} << 30;
  properties->multiProcessorCount = 132;
  properties->major = 9;
  const uint64_t hash = bora::fnv1a(g_uuids[static_cast<size_t>(device)]);
  for (size_t i = 0; i < 2; ++i) std::memcpy(properties->uuid.bytes + 8 * i, &hash, sizeof(hash));
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = g_driver;
  return cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureUnjoined:
      return "capturing stream has unjoined work";
    default:
      return "an error of the double";
  }
}

cudaError_t cudaGetLastError() { return std::exchange(t_last, cudaSuccess); }

cudaError_t cudaMalloc(void** data, size_t bytes) {
  if (const cudaError_t code = forbidden_in_capture()) return code;
  if (static_cast<int64_t>(bytes) > g_memory_limit) return failed(cudaErrorMemoryAllocation);
  *data = take(bytes);
  if (*data == nullptr) return failed(cudaErrorMemoryAllocation);
  ++g_allocations;
  ++g_uses.at(static_cast<size_t>(t_device));
  return cudaSuccess;
}

cudaError_t cudaFree(void* data) {
  if (const cudaError_t code = forbidden_in_capture()) return code;
  if (data != nullptr) --g_allocations;
  give_back(data);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned int) {
  if (const cudaError_t code = forbidden_in_capture()) return code;
  if (static_cast<int64_t>(bytes) > g_pinned_limit) return failed(cudaErrorMemoryAllocation);
  *data = take(bytes);
  if (*data == nullptr) return failed(cudaErrorMemoryAllocation);
  ++g_pinned;
  ++g_uses.at(static_cast<size_t>(t_device));
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* data) {
  if (data != nullptr) --g_pinned;
  give_back(data);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = size_t{120} << 20;
  *total = size_t{144384} << 20;
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  stream_of(stream).enqueue([=] { std::memset(data, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  CUstream_st& s = stream_of(stream);
  const bool pageable = is_pageable(to) || is_pageable(from);
  if (pageable && s.capture) {
    s.capture->broken = cudaErrorStreamCaptureInvalidated;
    return failed(cudaErrorStreamCaptureUnsupported);
  }
  // "Might be synchronous" where memory is pageable: never here, so that nobody relies on it.
  s.enqueue([=] { std::memmove(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (kind == cudaMemcpyHostToDevice && is_pageable(from)) {
    // Returns when the bytes have been staged; they may not have arrived.
    const char* const begin = static_cast<const char*>(from);
    stream_of(nullptr).enqueue([to, staged = std::vector<char>(begin, begin + bytes)] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::memcpy(to, staged.data(), staged.size());
    });
    return cudaSuccess;
  }
  cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  stream_of(nullptr).synchronize();
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  stream_of(stream).enqueue([=] { function(data); });
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = 0;
  *highest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int, int priority) {
  *stream = new CUstream_st(t_device, priority);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t code = forbidden_in_capture()) return code;
  stream_of(stream).synchronize();
  return cudaSuccess;
}

}  // extern "C"
