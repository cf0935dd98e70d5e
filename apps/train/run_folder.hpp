// SPDX-License-Identifier: Apache-2.0
// The folder of a training run: one run a folder.
#pragma once

#include <string>

#include "apps/train/config.hpp"

namespace bora::train {

/// Makes output.dir ready for a new run (or leaves it to a resumed one).  A folder holds one run: a
/// second one in it would mix their checkpoints.  Throws UsageError where a run lies there already
/// and neither resume nor overwrite is set; overwrite removes the run's own files, no others.
/// Called by one rank.
void claim_folder(const RunConfig& config);

}  // namespace bora::train
