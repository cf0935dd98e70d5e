// SPDX-License-Identifier: Apache-2.0
// How long each transform of a training sample takes.
#pragma once

#include <string>
#include <vector>

#include "data/transforms/transforms.hpp"

namespace bora::bench {

struct TransformTime {
  std::string name;
  double ns_per_voxel = 0;  ///< best of the repeats, on the calling thread, for each cell of the
                            ///< patch (all channels together)
};

/// Each transform alone, always drawn and at the strong end of its usual range, on made-up samples
/// (image of `channels`, labels, region, valid) with the margin that it asks for; then all at once.
/// Reading files is no part.  Throws Error for a patch without cells or a turn that it does not
/// take (wanted: as many cells along x and y).
std::vector<TransformTime> time_transforms(const Dims3& patch, int64_t channels, int repeats);

/// A made-up image of shells around a centre with its two classes, in a box: for pictures and
/// timing.
data::Sample made_up_sample(const Dims3& box, int64_t channels);

}  // namespace bora::bench
