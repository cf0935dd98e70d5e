// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string_view>

#include "apps/common/device_choice.hpp"
#include "apps/common/place.hpp"
#include "apps/common/same_settings.hpp"
#include "apps/common/threads.hpp"
#include "apps/train/parallel.hpp"
#include "apps/unet3d/commands.hpp"
#include "apps/unet3d/trainer.hpp"
#include "core/build_info.hpp"
#include "core/log.hpp"

namespace bora::unet3d {
namespace {

/// Runs `body`; an Error for want of memory also says which settings memory goes by.  It is known
/// by its words: contexts keep the message and whether it is a UsageError, no other type.
template <class Body>
auto with_memory_advice(const Config& config, Body&& body) {
  try {
    return body();
  } catch (const UsageError&) {
    throw;
  } catch (const Error& e) {
    const std::string_view text = e.what();
    if (text.find("out of host memory") == text.npos && text.find("out of memory") == text.npos)
      throw;
    throw Error(
        detail::join(e.what(), " (now train.batch=", config.train.batch,
                     ", data.shape=", config.data.shape, ", model.base=", config.model.base,
                     ", model.recompute=", config.model.recompute ? "true" : "false",
                     "; a smaller batch with as much larger train.accumulate is the same update)"));
  }
}

}  // namespace

int train_command(MpiSession& session, const std::vector<std::string>& args) {
  Config config;
  const ConfigArgs given = config_parse_args(
      config, "unet3d train", args,
      {.about = "Trains a 3-D U-Net that maps building masks to wind speed.", .positionals = {}});
  if (!given.help.empty()) {
    if (session.rank() == 0) std::fputs(given.help.c_str(), stdout);
    return 0;
  }
  const int threads = apps::set_compute_threads(session.local_size());
  const std::unique_ptr<Collective> ranks =
      make_communicator(session, train::communicator_options(config.comm));
  if (session.rank() == 0) log_info(build_info_text());
  apps::require_same_settings(*ranks, config_text(config));
  const apps::DeviceChoice choice = apps::choose_device(config.device, session, *ranks);
  apps::log_launch(session, *ranks, threads, choice.text());
  if (session.rank() == 0) log_info("device: ", choice.text());
  const std::unique_ptr<Collective> tensors =
      train::make_tensor_group(config.comm, session, *ranks, choice.device);
  return with_memory_advice(config, [&] {
    Trainer trainer(config, *ranks, {choice.device, tensors.get()});
    return trainer.run() ? 0 : config.train.stop_code;
  });
}

}  // namespace bora::unet3d
