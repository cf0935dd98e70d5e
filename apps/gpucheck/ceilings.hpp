// SPDX-License-Identifier: Apache-2.0
// What the device can do at best, measured: what times are held against.
#pragma once

#include "core/device.hpp"
#include "core/dtype.hpp"

namespace bora::gpucheck {

/// Copies inside the device's memory, bytes read and written counted: the best of five.
double copy_gb_per_s(Device device);
/// Products of 8192 x 8192 matrices, f32 sums: the best of five.
double gemm_tflop_per_s(Device device, DType type);

}  // namespace bora::gpucheck
