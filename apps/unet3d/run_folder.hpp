// SPDX-License-Identifier: Apache-2.0
// The folder of a training run: one run a folder, and the settings that make the run again.
#pragma once

#include <string>

#include "apps/unet3d/config.hpp"

namespace bora::unet3d {

/// Makes output.dir ready for a new run (or leaves it to a resumed one).  A folder holds one run: a
/// second one in it would mix their checkpoints.  Throws UsageError where a run lies there already
/// and neither resume nor overwrite is set; overwrite removes the run's own files, no others.
/// Called by one rank.
void claim_folder(const Config& config);

/// The settings that make the same run again, as TOML: how this one was started (resume, overwrite)
/// is not among them.
std::string settings_text(Config config);

}  // namespace bora::unet3d
