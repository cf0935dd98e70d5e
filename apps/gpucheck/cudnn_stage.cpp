// SPDX-License-Identifier: Apache-2.0
// Stage "cudnn": the plans that cuDNN offers for every convolution of the shipped networks.
#include "apps/gpucheck/stages.hpp"

namespace bora::gpucheck {

Stage cudnn_stage(const StageOptions& options) {
  Stage stage{.name = "cudnn", .device = options.target.name()};
  if (options.target.kind != Target::Kind::gpu) return no_device(stage.name, options.target);
  return stage;
}

}  // namespace bora::gpucheck
