// SPDX-License-Identifier: Apache-2.0
// The folder of a training run: one run a folder.
#pragma once

#include <memory>

#include "apps/train/config.hpp"
#include "apps/train/run_lock.hpp"

namespace bora::train {

/// Of the pictures of a run's report, in its folder.
inline constexpr const char* kPictureFolder = "pictures";

/// Makes output.dir ready for a new run (or leaves it to a resumed one).  A folder holds one run: a
/// second one in it would mix their checkpoints.  Throws UsageError where a run lies there already
/// and neither resume nor overwrite is set; overwrite removes the run's own files, no others.
/// Returns the lock that keeps other runs out of it.  Called by one rank.
std::shared_ptr<RunLock> claim_folder(const RunConfig& config);

}  // namespace bora::train
