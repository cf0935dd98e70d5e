// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "apps/gpucheck/stages.hpp"
#include "core/error.hpp"
#include "core/tensor.hpp"
#include "kernels/cuda/device.hpp"

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
  namespace device = kernels::cuda;
  if (wanted == "cpu") return {.kind = Target::Kind::cpu, .device = cpu()};
  Target target;
  if (device::n_devices() == 0) {
    target.reason = device::why_no_cuda();
    if (wanted == "cuda") throw UsageError("--device=cuda: " + target.reason);
    return target;
  }
  device::install_cuda_backend();
  device::bind_device(0);
  target.device = cuda(0);
  target.kind = device::is_emulated() ? Target::Kind::emulated : Target::Kind::gpu;
  return target;
}

void doing(const std::string& what) { std::fprintf(stderr, "doing %s\n", what.c_str()); }

std::string why_lost(const Target& target) {
  try {
    static_cast<void>(Tensor::full({1}, 1.0, DType::f32, target.device).item());
    return {};
  } catch (const std::exception& e) {
    return e.what();
  }
}

Stage no_device(const std::string& name, const Target& target) {
  return {
      .name = name, .status = Status::no_device, .device = target.name(), .error = target.reason};
}

}  // namespace bora::gpucheck
