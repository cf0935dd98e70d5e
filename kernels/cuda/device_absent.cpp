// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/device.hpp in a build without CUDA.
#include "core/error.hpp"
#include "kernels/cuda/device.hpp"

namespace bora::kernels::cuda {

int n_devices() { return 0; }
std::string why_no_cuda() {
  return "this program was built without CUDA; build it with -DBORA_CUDA=ON where the CUDA toolkit "
         "is installed";
}
bool is_emulated() { return false; }
std::string device_description(int index) {
  BORA_FAIL("no CUDA device ", index, ": ", why_no_cuda());
}
std::string device_uuid(int index) { BORA_FAIL("no CUDA device ", index, ": ", why_no_cuda()); }
int64_t free_device_memory(int index) { BORA_FAIL("no CUDA device ", index, ": ", why_no_cuda()); }
int runtime_version() { return 0; }
int driver_version() { return 0; }
std::string versions_text() { return why_no_cuda(); }
void install_cuda_backend() {}
void bind_device(int index) { BORA_FAIL("no CUDA device ", index, ": ", why_no_cuda()); }
DeviceCounters device_counters() { return {}; }

}  // namespace bora::kernels::cuda
