// SPDX-License-Identifier: Apache-2.0
#include "tests/nccl_double/cuda_double.hpp"

#include "comm/fnv.hpp"
#include "tests/nccl_double/nccl_double.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace bora::nccl_double {

std::atomic<int64_t> g_streams{0}, g_events{0}, g_allocations{0};

namespace {

constexpr int kMaxDevices = 16;
std::mutex g_mutex;
std::vector<std::string> g_uuids = {"0", "1", "2", "3", "4", "5", "6", "7"};
std::array<std::atomic<int64_t>, kMaxDevices> g_uses{};
thread_local int t_device = 0;
thread_local cudaError_t t_last = cudaSuccess;

cudaError_t failed(cudaError_t code) {
  t_last = code;
  return code;
}

}  // namespace

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

CUstream_st::CUstream_st(int device_index) : device(device_index), thread_([this] { run(); }) {
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
  std::shared_ptr<Mark> latest() {
    const std::lock_guard lock(mutex);
    return mark;
  }
};

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  const std::lock_guard lock(g_mutex);
  if (g_uuids.empty()) return failed(cudaErrorNoDevice);  // as the real one: count stays as it was
  *count = static_cast<int>(g_uuids.size());
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  const std::lock_guard lock(g_mutex);
  if (device < 0 || device >= static_cast<int>(g_uuids.size()))
    return failed(cudaErrorInvalidDevice);
  t_device = device;
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
  const uint64_t hash = bora::fnv1a(g_uuids[static_cast<size_t>(device)]);
  for (size_t i = 0; i < 2; ++i) std::memcpy(properties->uuid.bytes + 8 * i, &hash, sizeof(hash));
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorNoDevice        ? "no CUDA-capable device is detected"
         : error == cudaErrorInvalidDevice ? "invalid device ordinal"
                                           : "an error of the double";
}

cudaError_t cudaGetLastError() { return std::exchange(t_last, cudaSuccess); }

cudaError_t cudaMalloc(void** data, size_t bytes) {
  *data = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (*data == nullptr) return failed(cudaErrorMemoryAllocation);
  ++g_allocations;
  ++g_uses.at(static_cast<size_t>(t_device));
  return cudaSuccess;
}

cudaError_t cudaFree(void* data) {
  if (data != nullptr) --g_allocations;
  std::free(data);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  stream_of(stream).enqueue([=] { std::memmove(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
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

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int, int) {
  *stream = new CUstream_st(t_device);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  stream_of(stream).synchronize();
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
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
  const auto mark = std::make_shared<Mark>();
  {
    const std::lock_guard lock(event->mutex);
    event->mark = mark;
  }
  stream_of(stream).enqueue([mark] { mark->reach(); });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::shared_ptr<Mark> mark = event->latest();
  return !mark || mark->is_reached() ? cudaSuccess : failed(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const std::shared_ptr<Mark> mark = event->latest()) mark->wait();
  return cudaSuccess;
}

}  // extern "C"
