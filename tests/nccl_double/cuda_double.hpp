// SPDX-License-Identifier: Apache-2.0
// Inner header of the double: streams as threads, captures as lists.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

/// What a capture has written down, and what it then is launched as.
struct CUgraph_st {
  std::vector<std::function<void()>> tasks;
};

namespace bora::nccl_double {

/// A capture under way.
struct CaptureDouble {
  CUstream_st* origin = nullptr;
  CUgraph_st graph;
  cudaError_t broken = cudaSuccess;
  /// Tasks of each stream so far, and how many of another's it comes after.
  std::map<CUstream_st*, int64_t> tasks;
  std::map<CUstream_st*, std::map<CUstream_st*, int64_t>> after;
};

}  // namespace bora::nccl_double

/// A stream: tasks in order, on a thread.
struct CUstream_st {
  explicit CUstream_st(int device_index, int priority_wanted = 0);
  ~CUstream_st();                            ///< finishes what is queued
  void enqueue(std::function<void()> task);  ///< or writes it down while captured
  void synchronize();

  const int device;
  const int priority;
  std::shared_ptr<bora::nccl_double::CaptureDouble> capture;  // touched by the capturing thread

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

extern std::atomic<int64_t> g_streams, g_events, g_allocations, g_pinned;

/// What the calling thread captures in a mode that forbids calls such as cudaMalloc, or nullptr.
CaptureDouble* forbidding_capture();
/// cudaSuccess, or breaks the thread's capture: for calls that a capture forbids.
cudaError_t forbidden_in_capture();
/// Remembers a code for cudaGetLastError and returns it.
cudaError_t failed(cudaError_t code);

}  // namespace bora::nccl_double
