// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/session.hpp"

#include <map>
#include <memory>

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/runtime.hpp"

namespace bora::kernels::cudnn {
namespace {

cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream.native); }

}  // namespace

Session& Session::of(Stream stream) {
  BORA_CHECK(stream.device.type == DeviceType::cuda, "cuDNN: stream of ", stream.device,
             ", wanted one of a cuda device");
  thread_local std::map<std::pair<int, void*>, std::unique_ptr<Session>> sessions;
  auto& session = sessions[{stream.device.index, stream.native}];
  if (!session) session.reset(new Session(stream));
  return *session;
}

Session::Session(Stream stream) : stream_(stream) {
  const int n = cuda::n_devices();
  BORA_CHECK(stream.device.index < n, "conv3d: there is no ", stream.device, ": ",
             n == 0 ? cuda::why_no_cuda() : detail::join(n, " device(s) in this process"));
  const cuda::DeviceGuard guard(stream.device.index);
  cudnnHandle_t handle = nullptr;
  BORA_CUDNN(cudnnCreate(&handle));
  handle_ = Handle<cudnnHandle_t, &Session::destroy>(handle);
  BORA_CUDNN(cudnnSetStream(handle, native(stream)));
}

void Session::destroy(cudnnHandle_t handle) noexcept {
  check_warn<CudnnStatus>(cudnnDestroy(handle), "cudnnDestroy");
}

bool Session::capturing() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  BORA_RUNTIME(cudaStreamIsCapturing(native(stream_), &status));
  return status != cudaStreamCaptureStatusNone;
}

void* Session::workspace(int64_t bytes, bool in_capture) {
  if (bytes <= 0) return nullptr;
  if (!workspace_.defined() || workspace_.bytes() < bytes) {
    BORA_CHECK(!in_capture, "cuDNN: a workspace of ", bytes,
               " bytes is wanted while a graph is captured, there are ", workspace_.bytes(),
               ": run the same step once before capturing");
    // Work issued before may still use the old one; this happens at the first steps only.
    stream_.synchronize();
    if (captured_) kept_.push_back(std::move(workspace_));
    captured_ = false;
    workspace_ = Tensor();
    constexpr int64_t kStep = int64_t{2} << 20;
    workspace_ = Tensor::empty({(bytes + kStep - 1) / kStep * kStep}, DType::u8, stream_.device);
  }
  captured_ |= in_capture;
  return workspace_.raw();
}

void Session::execute(const ConvPlan& plan, const std::vector<Binding>& tensors) {
  const cuda::DeviceGuard guard(stream_.device.index);
  std::vector<int64_t> ids;
  std::vector<void*> pointers;
  for (const auto& [id, pointer] : tensors) {
    ids.push_back(id);
    pointers.push_back(const_cast<void*>(pointer));
  }
  void* const scratch = workspace(plan.workspace, capturing());
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set_all(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
      .set_all(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers)
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, scratch);
  pack.finalize();
  const cudnnStatus_t status = cudnnBackendExecute(handle_.get(), plan.plan.raw(), pack.raw());
  // A launch that cuDNN could not make leaves CUDA's error behind, and the next check of a launch
  // would take it for its own: the next engine is tried then.
  if (!CudnnStatus::ok(status)) static_cast<void>(cudaGetLastError());
  check<CudnnStatus>(status, "cudnnBackendExecute(handle, plan, pack)");
}

}  // namespace bora::kernels::cudnn
