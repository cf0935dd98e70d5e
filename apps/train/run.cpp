// SPDX-License-Identifier: Apache-2.0
#include "apps/train/run.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "apps/common/device_choice.hpp"
#include "apps/common/place.hpp"
#include "apps/common/same_settings.hpp"
#include "apps/common/stop.hpp"
#include "apps/common/threads.hpp"
#include "apps/train/dry_run.hpp"
#include "apps/train/parallel.hpp"
#include "apps/train/trainer.hpp"
#include "comm/communicator.hpp"
#include "core/build_info.hpp"
#include "core/log.hpp"

namespace bora::train {

namespace {

/// Prints the plan; 2 where the run cannot work.
int forecast(const RunConfig& config, Collective& ranks, const ComputePlace& place,
             const Trainer::MakeTask& make_task) {
  DryRun plan;
  try {
    plan = dry_run(make_task, config, ranks, place);
  } catch (const Error& e) {
    throw UsageError(detail::join("dry run: this run would not begin: ", e.what()));
  }
  if (ranks.rank() == 0) {
    for (const std::string& line : plan.lines) std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }
  return plan.verdict == Verdict::does_not_fit ? 2 : 0;
}

}  // namespace

RunMode take_dry_run(std::vector<std::string>& args) {
  const auto mark = std::find(args.begin(), args.end(), "--");
  const auto found = std::find(args.begin(), mark, "--dry-run");
  if (found == mark) return RunMode::train;
  args.erase(found);
  return RunMode::dry;
}

int run_task(Session& session, const RunConfig& config, const std::string& settings,
             const MakeTaskForRanks& make_task, RunMode mode) {
  const int threads = apps::set_compute_threads(session.local_size());
  const std::unique_ptr<Collective> ranks =
      make_communicator(session, communicator_options(config.comm));
  if (session.rank() == 0) log_info(build_info_text());
  const bool dry = mode == RunMode::dry;
  apps::require_same_settings(*ranks, settings + (dry ? "# --dry-run\n" : ""));
  const apps::DeviceChoice choice = apps::choose_device(config.device, session, *ranks);
  apps::log_launch(session, *ranks, threads, choice.text());
  if (session.rank() == 0) log_info("device: ", choice.text());
  const std::unique_ptr<Collective> tensors =
      make_tensor_group(config.comm, session, *ranks, choice.device);
  const Trainer::MakeTask make = [&] { return make_task(*ranks); };
  const ComputePlace place{choice.device, tensors.get()};
  if (dry) return forecast(config, *ranks, place, make);
  std::optional<Trainer> trainer;
  try {
    trainer.emplace(make, config, *ranks, place);
  } catch (const Error& e) {
    if (!apps::left_when_told(e)) throw;
    if (session.rank() == 0) log_warn(e.what());
    return config.train.stop_code;
  }
  return trainer->run() ? 0 : config.train.stop_code;
}

int impl::run_program(
    int argc, char** argv,
    const std::function<std::string(const std::string&, const std::vector<std::string>&)>& parse,
    const std::function<int(Session&, RunMode)>& train) {
  // Before anything that takes time: a job's signal may come while it starts.
  apps::catch_stop_signals();
  return run_ranks(argc, argv, [&](Session& session) {
    const std::string program =
        argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "program";
    std::vector<std::string> args(argv + std::min(argc, 1), argv + argc);
    const RunMode mode = take_dry_run(args);
    const std::string help = parse(program, args);
    if (help.empty()) return train(session, mode);
    if (session.rank() == 0) std::fputs(help.c_str(), stdout);
    return 0;
  });
}

}  // namespace bora::train
