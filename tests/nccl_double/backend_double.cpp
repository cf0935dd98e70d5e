// SPDX-License-Identifier: Apache-2.0
// A backend for CUDA tensors over the double's runtime: arithmetic by the CPU's, in stream order.
#include "core/backend.hpp"
#include "tests/nccl_double/cuda_double.hpp"
#include "tests/nccl_double/nccl_double.hpp"

namespace bora::nccl_double {
namespace {

cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream.native); }
cudaEvent_t native(const Event& event) { return static_cast<cudaEvent_t>(event.native()); }

class DoubleBackend final : public Backend {
 public:
  void* allocate(int64_t bytes, Device device) override {
    cudaSetDevice(device.index);
    void* data = nullptr;
    BORA_CHECK(cudaMalloc(&data, static_cast<size_t>(bytes)) == cudaSuccess, "out of memory");
    --g_allocations;  // the allocator keeps it to the end of the process
    return data;
  }
  void free(void* data, int64_t, Device) noexcept override {
    ++g_allocations;
    cudaFree(data);
  }
  void copy(Stream s, void* dst, Device to, const void* src, Device from, int64_t bytes) override {
    bind(s);
    cudaMemcpyAsync(dst, src, static_cast<size_t>(bytes), cudaMemcpyDefault, native(s));
    // Host memory has been read, or written, when the call returns, as with the real backend.
    if (from == cpu() || to == cpu()) stream_of(native(s)).synchronize();
  }
  void fill(Stream s, void* dst, DType type, double value, int64_t n) override {
    bind(s);
    stream_of(native(s)).enqueue([=] { host().fill({}, dst, type, value, n); });
  }
  void cast(Stream s, void* dst, DType dst_type, const void* src, DType type, int64_t n) override {
    bind(s);
    stream_of(native(s)).enqueue([=] { host().cast({}, dst, dst_type, src, type, n); });
  }
  void accumulate(Stream s, void* dst, DType dst_type, const void* src, DType type,
                  int64_t n) override {
    bind(s);
    stream_of(native(s)).enqueue([=] { host().accumulate({}, dst, dst_type, src, type, n); });
  }
  Stream default_stream(Device device) override { return {device, nullptr}; }
  Event record(Stream s) override {
    bind(s);
    cudaEvent_t event = nullptr;
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaEventRecord(event, native(s));
    return Event(s.device, std::shared_ptr<void>(event, [](void* e) {
                   cudaEventDestroy(static_cast<cudaEvent_t>(e));
                 }));
  }
  void wait(Stream s, const Event& event) override {
    bind(s);
    cudaStreamWaitEvent(native(s), native(event), 0);
  }
  bool done(const Event& event) override { return cudaEventQuery(native(event)) == cudaSuccess; }
  void synchronize(Stream s) override {
    bind(s);
    cudaStreamSynchronize(native(s));
  }
  void synchronize(const Event& event) override { cudaEventSynchronize(native(event)); }

 private:
  static Backend& host() { return backend(DeviceType::cpu); }
  static void bind(Stream s) { cudaSetDevice(s.device.index); }
};

}  // namespace

void use_backend(bool on) {
  static auto* instance = new DoubleBackend();  // tensors may outlive everything
  set_backend(DeviceType::cuda, on ? instance : nullptr);
}

}  // namespace bora::nccl_double
