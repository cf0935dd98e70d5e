// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/version_gate.hpp"

namespace bora::kernels::cudnn {

std::string version_text(size_t version) {
  return detail::join(version / 10000, '.', version / 100 % 100, '.', version % 100);
}

std::string refusal(size_t version, DType type, bool tf32, const Dims3& kernel) {
  if (version < version_number(9, 8, 0))
    return detail::join("cuDNN ", version_text(version), " is too old, wanted 9.15 or newer");
  const bool half = type == DType::f16 || type == DType::bf16;
  if (half && kernel != Dims3::all(1) && version < version_number(9, 15, 0))
    return detail::join("cuDNN ", version_text(version), " computes 3-D convolutions of ", type,
                        " wrongly for some large tensors (all versions from 9.8 to 9.14 do); use "
                        "9.15 or newer, or f32");
  if (type == DType::f32 && tf32 && version >= version_number(9, 10, 2) &&
      version < version_number(9, 16, 0))
    return detail::join("cuDNN ", version_text(version),
                        " has a wrong 3-D convolution in TF32 (versions from 9.10.2 to 9.15); use "
                        "9.16 or newer, or switch TF32 off");
  return {};
}

}  // namespace bora::kernels::cudnn
