// SPDX-License-Identifier: Apache-2.0
// The device that tests of programs run on: the emulated one in an emulator build, a GPU in a CUDA
// build where there is one, else the CPU.
#pragma once

#include <cstdint>
#include <functional>

#include "core/backend.hpp"
#include "core/device.hpp"

#if defined(BORA_EMULATED_CUDA)
#include "kernels/simt/emulator.hpp"
#endif

namespace bora::testing {

inline Device device_under_test() { return has_backend(DeviceType::cuda) ? cuda(0) : cpu(); }

#if defined(BORA_EMULATED_CUDA)
/// How often the host waited for the device while `body` ran.
inline int64_t count_synchronisations(const std::function<void()>& body) {
  const auto waits = [] {
    const simt::Counters c = simt::counters();
    return c.synchronizations + c.pageable_copies;
  };
  const int64_t before = waits();
  body();
  return waits() - before;
}
#endif

}  // namespace bora::testing
