// SPDX-License-Identifier: Apache-2.0
// What evaluate and predict begin with: the ranks, and the trained network on its device.
#pragma once

#include <memory>
#include <string>

#include "apps/unet3d/field.hpp"
#include "apps/unet3d/setup.hpp"
#include "comm/mpi.hpp"
#include "core/collective.hpp"

namespace bora::unet3d {

struct FieldRun {
  std::unique_ptr<Collective> ranks;
  TrainedModel trained;
};

/// Collective: shares the host's cores among its ranks, chooses the device, which rank 0 logs, and
/// loads config.checkpoint on it.  `settings`: what all ranks must have been started with
/// (config_text, and the files named).  On all ranks throws UsageError where settings differ or the
/// device cannot be had, and Error naming the checkpoint as load_trained does.
FieldRun start_field_run(MpiSession& session, const FieldConfig& config,
                         const std::string& settings);

}  // namespace bora::unet3d
