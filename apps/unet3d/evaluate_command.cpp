// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include "apps/common/device_choice.hpp"
#include "apps/common/threads.hpp"
#include "apps/unet3d/commands.hpp"
#include "apps/unet3d/evaluation.hpp"
#include "comm/communicator.hpp"
#include "core/log.hpp"

namespace bora::unet3d {
namespace {

struct EvaluateConfig {
  std::string checkpoint;
  std::string part = "test";
  std::string root;
  std::string output = "evaluation.csv";
  double hit_threshold = 0.5;
  bool mirror = false;
  std::string device = "auto";
  static constexpr auto fields() {
    return std::tuple{
        field("checkpoint", &EvaluateConfig::checkpoint,
              "the network: best.h5 or last.h5 of a run"),
        field("part", &EvaluateConfig::part, "which cases of the run's split",
              one_of("test", "validation", "training", "all")),
        field("root", &EvaluateConfig::root, "folder of the data set, if not the run's own"),
        field("output", &EvaluateConfig::output,
              "the table, one row per case, predictor and region"),
        field("hit_threshold", &EvaluateConfig::hit_threshold, "m/s: an error up to this is a hit",
              positive),
        field("mirror", &EvaluateConfig::mirror,
              "average with the prediction of the case mirrored in y"),
        field("device", &EvaluateConfig::device, "what computes, as in training",
              one_of("auto", "cpu", "cuda"))};
  }
};

/// "Never trained on" must be true: the split is made from the names in the folder, which may have
/// changed since the run.
void require_same_split(const TrainedModel& trained, const Cases& cases) {
  const auto compare = [&](const char* part, const std::vector<std::string>& then,
                           const data::Dataset& now) {
    const auto n_then = static_cast<int64_t>(then.size());
    for (int64_t i = 0; i < std::max(now.size(), n_then); ++i) {
      const std::string before = i < n_then ? then[static_cast<size_t>(i)] : "(none)";
      const std::string today = i < now.size() ? now.name(i) : "(none)";
      if (before != today)
        throw UsageError(detail::join("evaluate: the cases in ", trained.config.data.root,
                                      " are not those of the run: ", part, " case ", i, " was ",
                                      before, ", now ", today,
                                      ". Give the run's own folder, or --part=all for other data"));
    }
  };
  compare("training", trained.training, cases.training());
  compare("validation", trained.validation, cases.validation());
  compare("test", trained.test, cases.test());
}

}  // namespace

int evaluate_command(MpiSession& session, const std::vector<std::string>& args) {
  EvaluateConfig config;
  const ConfigArgs given = config_parse_args(
      config, "unet3d evaluate", args,
      {.about =
           "Scores a checkpoint on whole cases, beside predictors that any network must beat: the "
           "domain's mean, the mean vertical profile and the mean field, fitted on the training "
           "cases.",
       .positionals = {}});
  if (!given.help.empty()) {
    if (session.rank() == 0) std::fputs(given.help.c_str(), stdout);
    return 0;
  }
  if (config.checkpoint.empty())
    throw UsageError("evaluate: --checkpoint=FILE is wanted (best.h5 of a run)");
  apps::set_compute_threads(session.local_size());
  const std::unique_ptr<Collective> ranks = make_communicator(session);
  const apps::DeviceChoice choice = apps::choose_device(config.device, session, *ranks);
  if (session.rank() == 0) log_info("device: ", choice.text());
  TrainedModel trained;
  ranks->agree("loading " + config.checkpoint,
               [&] { trained = load_trained(config.checkpoint, choice.device); });
  if (!config.root.empty()) trained.config.data.root = config.root;
  const Cases cases(trained.config.data, trained.config.split, *ranks, &trained.normaliser);
  if (config.part != "all") require_same_split(trained, cases);
  if (trained.normaliser.mode() == data::NormMode::per_sample && session.rank() == 0)
    log_warn(
        "the network was trained with per_sample normalisation: its fields are scaled with each "
        "truth's own mean and "
        "sigma, which no prediction of a new case has");
  const data::Dataset& part = cases.part(config.part);
  if (part.size() == 0)
    throw UsageError("evaluate: the run has no " + config.part +
                     " cases; choose another --part (split.test of the run was " +
                     std::to_string(trained.config.split.test) + ")");
  const std::vector<Score> scores = evaluate(trained, cases, part, config.hit_threshold,
                                             mirror_mode(config.mirror, trained), *ranks);
  ranks->agree("writing " + config.output, [&] {
    if (session.rank() == 0) write_scores(config.output, scores);
  });
  if (session.rank() == 0) {
    std::printf("%ld %s cases, checkpoint %s (%ld updates)\n%s", static_cast<long>(part.size()),
                config.part.c_str(), config.checkpoint.c_str(), static_cast<long>(trained.updates),
                score_table(scores).c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace bora::unet3d
