// SPDX-License-Identifier: Apache-2.0
// Which versions of cuDNN are not trusted with which 3-D convolutions.  Pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "core/dtype.hpp"
#include "core/shape.hpp"

namespace bora::kernels::cudnn {

/// cuDNN 9's number of version a.b.c, as cudnnGetVersion() gives it: 10000 a + 100 b + c.
constexpr size_t version_number(int major, int minor, int patch) {
  return static_cast<size_t>(10000 * major + 100 * minor + patch);
}
/// "9.19.0"
std::string version_text(size_t version);

/// Empty, or why a convolution with `kernel` of `type` (f32 with `tf32`: rounded to TF32) must not
/// be computed by this version:
///  - before 9.8: the description of a device, which plans are made for, does not exist;
///  - 9.8 to 9.14, f16 and bf16, kernels other than 1x1x1: wrong results for large tensors, without
///    an error (reported for 1x16x124x1282x722, still below 2^31 elements);
///  - 9.10.2 to 9.15, TF32: a wrong 3-D kernel whose conditions were never published.
std::string refusal(size_t version, DType type, bool tf32, const Dims3& kernel);

}  // namespace bora::kernels::cudnn
