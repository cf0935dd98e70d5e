// SPDX-License-Identifier: Apache-2.0
// The run that `unet3d train` makes: a WindTask in a Trainer.
#pragma once

#include <memory>

#include "apps/train/trainer.hpp"
#include "apps/unet3d/wind_task.hpp"

namespace bora::unet3d {

class Trainer : public train::Trainer {
 public:
  /// Opens the data, builds the network, resumes if asked to.  Collective; throws UsageError or
  /// Error on all ranks.
  Trainer(const Config& config, Collective& ranks, const train::ComputePlace& place = {})
      : train::Trainer([&] { return std::make_unique<WindTask>(config, ranks); }, config, ranks,
                       place) {}
};

}  // namespace bora::unet3d
