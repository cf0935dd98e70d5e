// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/device.hpp over the CUDA runtime.
#include "kernels/cuda/device.hpp"

#include <cstdio>

#include "core/error.hpp"
#include "kernels/cuda/backend_cuda.hpp"
#include "kernels/cuda/runtime.hpp"

namespace bora::kernels::cuda {
namespace {

std::string version_text(int version) {
  return detail::join(version / 1000, '.', version % 1000 / 10);
}

/// The runtime's answer.  `n` is 0 unless it is cudaSuccess: the runtime leaves its argument as it
/// was when it fails.
cudaError_t count(int& n) {
  n = 0;
  int found = 0;
  const cudaError_t code = cudaGetDeviceCount(&found);
  if (code == cudaSuccess)
    n = found;
  else
    static_cast<void>(cudaGetLastError());  // no error of what comes next
  return code;
}

cudaDeviceProp properties_of(int index) {
  const int n = n_devices();
  BORA_CHECK(index >= 0 && index < n, "no CUDA device ", index, ": ",
             n == 0 ? why_no_cuda() : detail::join("this process sees ", n));
  cudaDeviceProp properties{};
  BORA_RUNTIME(cudaGetDeviceProperties(&properties, index));
  return properties;
}

// Tensors may outlive everything: never destroyed.
CudaBackend* g_backend = nullptr;

}  // namespace

int n_devices() {
  int n = 0;
  count(n);
  return n;
}

std::string why_no_cuda() {
  int n = 0;
  const cudaError_t code = count(n);
  if (n > 0) return {};
  const int driver = driver_version();
  if (driver == 0)
    return "there is no NVIDIA driver (libcuda.so.1) on this machine, or only a stub; install one, "
           "or ask the scheduler for a node with GPUs";
  if (code == cudaErrorInsufficientDriver)
    return detail::join("the NVIDIA driver is too old: it supports CUDA ", version_text(driver),
                        ", this program needs ", version_text(runtime_version()),
                        "; install a newer driver");
  if (code == cudaSuccess || code == cudaErrorNoDevice)
    return "the NVIDIA driver shows no device to this process; ask the scheduler for a GPU (Slurm: "
           "--gpus-per-task=1), and look at CUDA_VISIBLE_DEVICES";
  return detail::join("the CUDA runtime does not start: ", cudaGetErrorString(code), " (code ",
                      static_cast<int>(code), "); try nvidia-smi");
}

bool is_emulated() { return false; }

std::string device_description(int index) {
  const cudaDeviceProp p = properties_of(index);
  return detail::join(p.name, ", ", p.totalGlobalMem >> 30, " GiB, ", p.multiProcessorCount,
                      " SMs, sm_", p.major, p.minor);
}

std::string device_uuid(int index) {
  const cudaDeviceProp p = properties_of(index);
  std::string text = "GPU-";
  for (size_t i = 0; i < sizeof(p.uuid.bytes); ++i) {
    char digits[4];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(p.uuid.bytes[i]));
    text += digits;
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}

int64_t free_device_memory(int index) {
  static_cast<void>(properties_of(index));  // refuses a device that is not there
  const DeviceGuard guard(index);
  size_t free = 0, total = 0;
  BORA_RUNTIME(cudaMemGetInfo(&free, &total));
  return static_cast<int64_t>(free);
}

int runtime_version() {
  int version = 0;
  BORA_RUNTIME(cudaRuntimeGetVersion(&version));
  return version;
}

int driver_version() {
  int version = 0;
  if (cudaDriverGetVersion(&version) == cudaSuccess) return version;
  static_cast<void>(cudaGetLastError());
  return 0;
}

std::string versions_text() {
  if (n_devices() == 0) return why_no_cuda();
  return detail::join("CUDA ", version_text(runtime_version()), ", driver for ",
                      version_text(driver_version()));
}

void install_cuda_backend() {
  if (g_backend != nullptr || n_devices() == 0) return;
  g_backend = new CudaBackend();
  set_backend(DeviceType::cuda, g_backend);
}

void bind_device(int index) {
  static_cast<void>(properties_of(index));
  BORA_RUNTIME(cudaSetDevice(index));
  chosen_devices() |= device_bit(index);
}

DeviceCounters device_counters() { return g_backend ? g_backend->counters() : DeviceCounters{}; }

}  // namespace bora::kernels::cuda
