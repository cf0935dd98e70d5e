// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/tuning.hpp"

#include <algorithm>
#include <array>

#include "core/handle.hpp"
#include "core/tensor.hpp"
#include "kernels/cuda/runtime.hpp"

namespace bora::kernels::cudnn {
namespace {

void destroy_event(cudaEvent_t event) noexcept { BORA_RUNTIME_WARN(cudaEventDestroy(event)); }
using TimingEvent = Handle<cudaEvent_t, &destroy_event>;

TimingEvent make_event() {
  cudaEvent_t event = nullptr;
  BORA_RUNTIME(cudaEventCreate(&event));
  return TimingEvent(event);
}

}  // namespace

double time_on_device(Stream stream, const std::function<void()>& run, double best) {
  const cuda::DeviceGuard guard(stream.device.index);
  const auto native = static_cast<cudaStream_t>(stream.native);
  int l2_bytes = 0;
  BORA_RUNTIME(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, stream.device.index));
  Tensor flush =
      Tensor::empty({std::max<int64_t>(1, 2 * int64_t{l2_bytes})}, DType::u8, stream.device);
  const TimingEvent begin = make_event(), end = make_event();
  const auto one = [&] {
    BORA_RUNTIME(cudaMemsetAsync(flush.raw(), 0, static_cast<size_t>(flush.bytes()), native));
    BORA_RUNTIME(cudaEventRecord(begin.get(), native));
    run();
    BORA_RUNTIME(cudaEventRecord(end.get(), native));
    BORA_RUNTIME(cudaEventSynchronize(end.get()));
    float ms = 0;
    BORA_RUNTIME(cudaEventElapsedTime(&ms, begin.get(), end.get()));
    return ms;
  };
  run();  // loads its kernels
  const float second = one();
  if (static_cast<double>(second) > 2 * best) return static_cast<double>(second);
  run();
  std::array<float, 5> times{};
  for (float& ms : times) ms = one();
  std::sort(times.begin(), times.end());
  return static_cast<double>(times[2]);
}

}  // namespace bora::kernels::cudnn
