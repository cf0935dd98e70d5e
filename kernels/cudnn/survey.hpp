// SPDX-License-Identifier: Apache-2.0
// Survey: what cuDNN does with one convolution on this machine's device, for reports.
#pragma once

#include <string>

#include "core/stream.hpp"
#include "kernels/cudnn/problem.hpp"

namespace bora::kernels::cudnn {

struct SurveyedPlan {
  std::string engine;     ///< "engine 62 (2:5 13:1)"; empty if there is none
  std::string predicted;  ///< what cuDNN would suggest first for the described device; may be empty
  std::string fault;      ///< why there is none
  bool tensor_core = false, deterministic = false;
  int64_t workspace = 0;  ///< bytes
  double ms = 0;          ///< median, second-level cache emptied before each run
  double flops = 0;       ///< direct arithmetic
};

/// Chooses the plan as a training run would (settings: cuda::conv3d_settings(); it is qualified
/// there), and times it on data of the pass's shapes.  `described_device`: cuDNN's JSON of a device
/// to predict for, or empty.  Waits for the device.
SurveyedPlan survey(Stream stream, ConvPass pass, const Conv3dAttributes& a, const Shape& x,
                    const Shape& w, const Shape& y, DType type,
                    const std::string& described_device);

/// cuDNN's JSON of a device of this machine: what plans without a device are made from.
std::string device_json(Device device);
/// "9.19.0".
std::string library_version();

}  // namespace bora::kernels::cudnn
