// SPDX-License-Identifier: Apache-2.0
// The folder of a training run: one run a folder.
#pragma once

#include <memory>
#include <string>

#include "apps/train/config.hpp"
#include "apps/train/run_lock.hpp"

namespace bora::train {

/// Of the pictures of a run's report, in its folder.
inline constexpr const char* kPictureFolder = "pictures";

/// A file of a run that lies in output.dir already; empty without one.  Throws UsageError if there
/// is one and neither resume nor overwrite is set.
std::string other_run(const RunConfig& config);

/// Makes output.dir ready for a new run (or leaves it to a resumed one).  A folder holds one run: a
/// second one in it would mix their checkpoints.  Throws UsageError as other_run does, or where the
/// folder cannot be had; overwrite removes the run's own files, no others.
/// Returns the lock that keeps other runs out of it.  Called by one rank.
std::shared_ptr<RunLock> claim_folder(const RunConfig& config);

}  // namespace bora::train
