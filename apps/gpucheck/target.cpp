// SPDX-License-Identifier: Apache-2.0
#include "apps/gpucheck/stages.hpp"
#include "core/backend.hpp"
#include "core/error.hpp"

namespace bora::gpucheck {

const char* Target::name() const {
  switch (kind) {
    case Kind::gpu:
      return "gpu";
    case Kind::emulated:
      return "emulated";
    case Kind::cpu:
      return "cpu";
    case Kind::none:
      return "none";
  }
  return "none";
}

Target find_target(const std::string& wanted) {
  if (wanted == "cpu") return {.kind = Target::Kind::cpu, .device = cpu()};
  Target target;
  if (has_backend(DeviceType::cuda)) {
    target.device = cuda(0);
#if defined(BORA_EMULATED_CUDA)
    target.kind = Target::Kind::emulated;
#else
    target.kind = Target::Kind::gpu;
#endif
    return target;
  }
#if defined(BORA_CUDA)
  target.reason = "no CUDA device, or no driver for it, on this machine";
#else
  target.reason = "this program was built without CUDA";
#endif
  if (wanted == "cuda") throw UsageError("--device=cuda: " + target.reason);
  return target;
}

Stage no_device(const std::string& name, const Target& target) {
  return {
      .name = name, .status = Status::no_device, .device = target.name(), .error = target.reason};
}

}  // namespace bora::gpucheck
