// SPDX-License-Identifier: Apache-2.0
// Permute: axes of a host tensor in another order.
#pragma once

#include <vector>

#include "core/tensor.hpp"

namespace bora::data {

/// Axis i of the result is axis order[i] of `x` (CPU, any type); `order` names each axis once.  The
/// identity shares the bytes, else copies.
Tensor permute(const Tensor& x, const std::vector<int>& order);

}  // namespace bora::data
