// SPDX-License-Identifier: Apache-2.0
// GradientMode: whether a kernel that writes a parameter's gradient overwrites or adds.
#pragma once

namespace bora::kernels {

/// `overwrite` for the first contribution of a backward pass, `add` for later ones (a parameter
/// used twice, gradient accumulation).
enum class GradientMode { overwrite, add };

}  // namespace bora::kernels
