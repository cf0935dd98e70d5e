// SPDX-License-Identifier: Apache-2.0
// Inner header of the double: streams as threads.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

/// A stream: tasks in order, on a thread.
struct CUstream_st {
  explicit CUstream_st(int device_index);
  ~CUstream_st();  ///< finishes what is queued
  void enqueue(std::function<void()> task);
  void synchronize();

  const int device;

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool busy_ = false, stop_ = false;
  std::thread thread_;
};

namespace bora::nccl_double {

/// A null stream is the current device's default stream.
CUstream_st& stream_of(cudaStream_t stream);

extern std::atomic<int64_t> g_streams, g_events, g_allocations;

}  // namespace bora::nccl_double
