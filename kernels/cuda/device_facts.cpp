// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device_facts.hpp"

#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

#include "core/error.hpp"
#include "kernels/cuda/runtime.hpp"

namespace bora::kernels::cuda {
std::map<std::string, std::string> device_facts(Device device) {
  cudaDeviceProp p{};
  cudaError_t error = cudaGetDeviceProperties(&p, device.index);
  BORA_CHECK(error == cudaSuccess, "device_facts: ", device, ": ", cudaGetErrorString(error));
  int core_khz = 0, memory_khz = 0, bus_bits = 0;
  const auto attribute = [&](int& value, cudaDeviceAttr which) {
    // Some drivers keep clocks to themselves: 0 then.
    if (cudaDeviceGetAttribute(&value, which, device.index) != cudaSuccess) cudaGetLastError();
  };
  attribute(core_khz, cudaDevAttrClockRate);
  attribute(memory_khz, cudaDevAttrMemoryClockRate);
  attribute(bus_bits, cudaDevAttrGlobalMemoryBusWidth);
  std::map<std::string, std::string> facts;
  facts["gpu"] = p.name;
  facts["sms"] = std::to_string(p.multiProcessorCount);
  facts["compute capability"] = detail::join(p.major, '.', p.minor);
  facts["memory MiB"] = std::to_string(p.totalGlobalMem >> 20);
  facts["L2 MiB"] = std::to_string(p.l2CacheSize >> 20);
  facts["shared memory a block, KiB"] = std::to_string(p.sharedMemPerBlockOptin >> 10);
  facts["core clock MHz"] = std::to_string(core_khz / 1000);
  facts["memory clock MHz"] = std::to_string(memory_khz / 1000);
  facts["memory bus bits"] = std::to_string(bus_bits);
  facts["ecc"] = p.ECCEnabled ? "on" : "off";
  return facts;
}

int64_t memory_in_use(Device device) {
  const DeviceGuard guard(device.index);
  size_t free = 0, total = 0;
  BORA_RUNTIME(cudaMemGetInfo(&free, &total));
  return static_cast<int64_t>(total - free);
}

void profiler(bool on) {
  // Without a profiler there is nothing to begin: no error of ours.
  if ((on ? cudaProfilerStart() : cudaProfilerStop()) != cudaSuccess) cudaGetLastError();
}

}  // namespace bora::kernels::cuda
