// SPDX-License-Identifier: Apache-2.0
// Inner header of kernels/cuda: the backend for DeviceType::cuda over the CUDA runtime.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/backend.hpp"
#include "kernels/cuda/device.hpp"

namespace bora::kernels::cuda {

/// Memory, streams, events and graphs of all devices of the process.  Never the legacy default
/// stream: each device has a compute stream of its own, which waits for no other.  Any thread may
/// call; the current device of the calling thread is left as it was (see DeviceGuard).
class CudaBackend final : public Backend {
 public:
  CudaBackend();
  ~CudaBackend() override;

  void* allocate(int64_t bytes, Device device) override;
  void free(void* data, int64_t bytes, Device device) noexcept override;
  /// From or to pinned memory and between devices: the host does not wait.  From pageable memory:
  /// returns when the host memory has been read.  To pageable memory: returns when it is written.
  void copy(Stream stream, void* dst, Device dst_device, const void* src, Device src_device,
            int64_t bytes) override;
  void fill(Stream stream, void* dst, DType type, double value, int64_t n) override;
  void cast(Stream stream, void* dst, DType dst_type, const void* src, DType src_type,
            int64_t n) override;
  void accumulate(Stream stream, void* dst, DType dst_type, const void* src, DType src_type,
                  int64_t n) override;

  Stream default_stream(Device device) override;
  Event record(Stream stream) override;
  void wait(Stream stream, const Event& event) override;
  bool done(const Event& event) override;
  void synchronize(Stream stream) override;
  void synchronize(const Event& event) override;

  void* allocate_pinned(int64_t bytes) override;
  void free_pinned(void* data, int64_t bytes) noexcept override;
  Stream make_stream(Device device, bool urgent) override;
  void destroy_stream(Stream stream) noexcept override;

  bool has_graphs() const override { return true; }
  void begin_capture(Stream stream) override;
  Graph end_capture(Stream stream) override;
  void launch(Stream stream, const Graph& graph) override;

  DeviceCounters counters() const;

 private:
  struct PerDevice;
  struct EventPool;
  struct NativeEvent;
  PerDevice& of(Device device);
  int home_device();
  bool is_pinned(const void* data, int64_t bytes) const;

  struct Counts {
    std::atomic<int64_t> allocations{0}, frees{0}, pinned_allocations{0}, copies{0},
        blocking_copies{0}, records{0}, waits{0}, synchronizes{0}, captures{0}, graph_launches{0};
  } n_;
  std::mutex mutex_;
  std::map<int, std::unique_ptr<PerDevice>> devices_;
  mutable std::mutex pinned_mutex_;
  std::map<const char*, int64_t> pinned_;  // begin -> bytes
};

}  // namespace bora::kernels::cuda
