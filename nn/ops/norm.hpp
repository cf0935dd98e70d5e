// SPDX-License-Identifier: Apache-2.0
// The rule by which networks choose the groups of a group norm.
#pragma once

#include <cstdint>

namespace bora::nn {

/// Groups for a GroupNorm over `channels` > 0: 8, or the largest divisor of `channels` that is at
/// most 8 (so 20 channels get 5 groups, 7 get 7, 11 get 1).  Source: spec unet3d.md 1.
int64_t group_count(int64_t channels);

}  // namespace bora::nn
