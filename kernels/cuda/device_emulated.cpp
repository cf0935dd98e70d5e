// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/device.hpp in a build for the tests' emulator: one device, which is the host.
#include "core/error.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/simt/emulator.hpp"

namespace bora::kernels::cuda {
namespace {

void check(int index) {
  BORA_CHECK(index == 0, "no CUDA device ", index, ": this process sees 1, the emulated one");
}

}  // namespace

int n_devices() { return 1; }
std::string why_no_cuda() { return {}; }
bool is_emulated() { return true; }
std::string device_description(int index) {
  check(index);
  return "emulated CUDA device (host memory, for tests)";
}
std::string device_uuid(int index) {
  check(index);
  return "GPU-00000000-0000-0000-0000-000000000000";
}
int64_t free_device_memory(int index) {
  check(index);
  return -1;
}
int runtime_version() { return 0; }
int driver_version() { return 0; }
std::string versions_text() { return "emulated CUDA"; }
void install_cuda_backend() { simt::install(); }
void bind_device(int index) { check(index); }

DeviceCounters device_counters() {
  const simt::Counters c = simt::counters();
  return {.allocations = c.allocations,
          .copies = c.host_to_device + c.device_to_host + c.device_to_device - c.pageable_copies,
          .blocking_copies = c.pageable_copies,
          .records = c.event_records,
          .waits = c.event_waits,
          .synchronizes = c.synchronizations,
          .graph_launches = c.graph_launches};
}

}  // namespace bora::kernels::cuda
