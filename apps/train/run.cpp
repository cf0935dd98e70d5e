// SPDX-License-Identifier: Apache-2.0
#include "apps/train/run.hpp"

#include <cstdio>
#include <filesystem>

#include "apps/common/device_choice.hpp"
#include "apps/common/place.hpp"
#include "apps/common/same_settings.hpp"
#include "apps/common/stop.hpp"
#include "apps/common/threads.hpp"
#include "apps/train/parallel.hpp"
#include "apps/train/trainer.hpp"
#include "comm/communicator.hpp"
#include "core/build_info.hpp"
#include "core/log.hpp"

namespace bora::train {

int run_task(Session& session, const RunConfig& config, const std::string& settings,
             const MakeTaskForRanks& make_task) {
  const int threads = apps::set_compute_threads(session.local_size());
  const std::unique_ptr<Collective> ranks =
      make_communicator(session, communicator_options(config.comm));
  if (session.rank() == 0) log_info(build_info_text());
  apps::require_same_settings(*ranks, settings);
  const apps::DeviceChoice choice = apps::choose_device(config.device, session, *ranks);
  apps::log_launch(session, *ranks, threads, choice.text());
  if (session.rank() == 0) log_info("device: ", choice.text());
  const std::unique_ptr<Collective> tensors =
      make_tensor_group(config.comm, session, *ranks, choice.device);
  Trainer trainer([&] { return make_task(*ranks); }, config, *ranks,
                  {choice.device, tensors.get()});
  return trainer.run() ? 0 : config.train.stop_code;
}

int impl::run_program(
    int argc, char** argv,
    const std::function<std::string(const std::string&, const std::vector<std::string>&)>& parse,
    const std::function<int(Session&)>& train) {
  // Before anything that takes time: a job's signal may come while it starts.
  apps::catch_stop_signals();
  return run_ranks(argc, argv, [&](Session& session) {
    const std::string program =
        argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "program";
    const std::string help = parse(program, {argv + std::min(argc, 1), argv + argc});
    if (help.empty()) return train(session);
    if (session.rank() == 0) std::fputs(help.c_str(), stdout);
    return 0;
  });
}

}  // namespace bora::train
