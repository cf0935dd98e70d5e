// SPDX-License-Identifier: Apache-2.0
// What a command tells its user while the files of a data set are looked into.
#pragma once

#include "core/collective.hpp"
#include "data/preflight.hpp"

namespace bora::unet3d {

/// Progress every five seconds and the outcome into rank 0's log; leaves when told to stop
/// (apps::leave_if_told).
data::PreflightHooks preflight_hooks(const Collective& ranks);

}  // namespace bora::unet3d
