// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/field_run.hpp"

#include "apps/common/device_choice.hpp"
#include "apps/common/same_settings.hpp"
#include "apps/common/threads.hpp"
#include "comm/communicator.hpp"
#include "core/log.hpp"

namespace bora::unet3d {

FieldRun start_field_run(MpiSession& session, const FieldConfig& config,
                         const std::string& settings) {
  apps::set_compute_threads(session.local_size());
  CommunicatorOptions options;
  options.timeout_s = config.comm.timeout_s;
  FieldRun run{make_communicator(session, options), {}};
  apps::require_same_settings(*run.ranks, settings);
  const apps::DeviceChoice choice = apps::choose_device(config.device, session, *run.ranks);
  if (session.rank() == 0) log_info("device: ", choice.text());
  run.ranks->agree("loading " + config.checkpoint, [&] {
    run.trained = load_trained(config.checkpoint, choice.device, weights_from(config.weights));
  });
  return run;
}

}  // namespace bora::unet3d
