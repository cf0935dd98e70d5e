// SPDX-License-Identifier: Apache-2.0
// Stage "environment": what machine this is, and what it can do at best.
#include <dlfcn.h>

#include <algorithm>

#include "apps/gpucheck/ceilings.hpp"
#include "apps/gpucheck/stages.hpp"
#include "core/build_info.hpp"
#include "core/profile.hpp"
#if defined(BORA_CUDA)
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/device_facts.hpp"
#include "kernels/cudnn/survey.hpp"
#endif

namespace bora::gpucheck {
namespace {

#if defined(BORA_CUDA)
/// "2.28.9" from NCCL, if it can be opened.
std::string nccl_version() {
  void* const handle = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return "not found";
  const auto version = reinterpret_cast<int (*)(int*)>(::dlsym(handle, "ncclGetVersion"));
  int v = 0;
  if (version == nullptr || version(&v) != 0) return "unknown";
  return detail::join(v / 10000, '.', v / 100 % 100, '.', v % 100);
}
#endif

}  // namespace

Stage environment_stage(const StageOptions& options) {
  const double begin = now_s();
  Stage stage{.name = "environment", .device = options.target.name()};
  stage.facts["build"] = build_info_text();
  if (build_info().cuda) stage.facts["cuda compiler"] = build_info().cuda_compiler;
  if (!options.driver_text.empty()) stage.facts["nvidia-smi"] = options.driver_text;
#if defined(BORA_CUDA)
  stage.facts["nccl"] = nccl_version();
  stage.facts["cudnn"] = kernels::cudnn::library_version();
  stage.facts["cuda"] = kernels::cuda::versions_text();
  if (options.target.kind == Target::Kind::gpu)
    for (const auto& [key, value] : kernels::cuda::device_facts(options.target.device))
      stage.facts[key] = value;
#endif
  if (options.target.kind == Target::Kind::none) {
    stage.status = Status::no_device;
    stage.error = options.target.reason;
  } else if (options.target.timed()) {
    // That there is a GPU is known whatever becomes of the rest: the script goes by it.
    if (options.so_far) options.so_far(stage);
    doing("copies and products");
    stage.numbers["copy_GBps"] = copy_gb_per_s(options.target.device);
    stage.numbers["gemm_f16_TFLOPs"] = gemm_tflop_per_s(options.target.device, DType::f16);
    stage.numbers["gemm_bf16_TFLOPs"] = gemm_tflop_per_s(options.target.device, DType::bf16);
  }
  stage.seconds = now_s() - begin;
  return stage;
}

}  // namespace bora::gpucheck
