// SPDX-License-Identifier: Apache-2.0
// A stand-in for NVIDIA's libnvidia-ml.so.1: one GPU, "GPU-1234", whose counter the environment
// variable BORA_NVML_DOUBLE_MJ gives (millijoules, or a word for an error).
#include <cstdlib>
#include <cstring>

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }

int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  static int the_gpu = 0;
  *device = &the_gpu;
  return std::strcmp(uuid, "GPU-1234") == 0 ? 0 : 6;  // NVML_ERROR_NOT_FOUND
}

int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  const char* text = std::getenv("BORA_NVML_DOUBLE_MJ");
  if (device == nullptr || text == nullptr) return 2;     // NVML_ERROR_INVALID_ARGUMENT
  if (std::strcmp(text, "not supported") == 0) return 3;  // NVML_ERROR_NOT_SUPPORTED
  if (std::strcmp(text, "no permission") == 0) return 4;  // NVML_ERROR_NO_PERMISSION
  *millijoules = std::strtoull(text, nullptr, 10);
  return 0;
}
}
