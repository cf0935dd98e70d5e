// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl_stream.hpp"

#include "core/backend.hpp"

#include <cuda_runtime_api.h>

#include <mutex>
#include <vector>

namespace bora {

struct NcclStream::Pool {
  std::mutex mutex;
  std::vector<cudaEvent_t> free;
  ~Pool() {
    for (cudaEvent_t event : free) BORA_CUDART_WARN(cudaEventDestroy(event));
  }
};

bool is_done(const NcclEvent& event) {
  const cudaError_t code = cudaEventQuery(event.get());
  if (code == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // "not ready" is no error for those who look later
    return false;
  }
  BORA_CUDART(code);
  return true;
}

NcclStream::NcclStream(int device) : device_(device), pool_(std::make_shared<Pool>()) {
  bind();
  int lowest = 0, highest = 0;
  BORA_CUDART(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  BORA_CUDART(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest));
}

NcclStream::~NcclStream() { BORA_CUDART_WARN(cudaStreamDestroy(stream_)); }

void NcclStream::bind() const { BORA_CUDART(cudaSetDevice(device_)); }

cudaStream_t NcclStream::compute() const {
  if (!has_backend(DeviceType::cuda)) return nullptr;
  return static_cast<cudaStream_t>(current_stream(cuda(device_)).native);
}

NcclEvent NcclStream::record(cudaStream_t stream) {
  cudaEvent_t native = nullptr;
  {
    const std::lock_guard lock(pool_->mutex);
    if (!pool_->free.empty()) {
      native = pool_->free.back();
      pool_->free.pop_back();
    }
  }
  if (native == nullptr) BORA_CUDART(cudaEventCreateWithFlags(&native, cudaEventDisableTiming));
  NcclEvent event(native, [pool = pool_](cudaEvent_t e) {
    const std::lock_guard lock(pool->mutex);
    pool->free.push_back(e);
  });
  BORA_CUDART(cudaEventRecord(native, stream));
  return event;
}

void NcclStream::wait(cudaStream_t stream, const NcclEvent& event) {
  BORA_CUDART(cudaStreamWaitEvent(stream, event.get(), 0));
}

}  // namespace bora
