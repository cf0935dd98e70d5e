// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <numeric>

#include "apps/common/device_choice.hpp"
#include "apps/common/same_settings.hpp"
#include "apps/common/text.hpp"
#include "apps/common/threads.hpp"
#include "apps/unet3d/commands.hpp"
#include "apps/unet3d/evaluation.hpp"
#include "apps/unet3d/picture.hpp"
#include "apps/unet3d/pulse.hpp"
#include "comm/communicator.hpp"
#include "core/log.hpp"

namespace bora::unet3d {
namespace {

struct EvaluateConfig : FieldConfig {
  std::string part = "test";
  std::string root;
  std::string output = "evaluation.csv";
  std::string json;
  std::string pictures;
  double height = 10.0;
  double hit_threshold = 0.5;
  static constexpr auto fields() {
    return std::tuple_cat(
        FieldConfig::fields(),
        std::tuple{
            field("part", &EvaluateConfig::part, "which cases of the run's split",
                  one_of("test", "validation", "training", "all")),
            field("root", &EvaluateConfig::root, "folder of the data set, if not the run's own"),
            field(
                "output", &EvaluateConfig::output,
                "the table, one row per case, predictor and region: CSV, or JSON for a name ending "
                "in .json"),
            field("json", &EvaluateConfig::json, "the same numbers as JSON, too"),
            field("pictures", &EvaluateConfig::pictures,
                  "folder for pictures of the best, the median and the worst case"),
            field("height", &EvaluateConfig::height,
                  "metres above ground of the pictures' horizontal slice", at_least(0)),
            field("hit_threshold", &EvaluateConfig::hit_threshold,
                  "m/s: an error up to this is a hit", positive)});
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

data::JsonRecord settings_of(const EvaluateConfig& config, const TrainedModel& trained,
                             const Evaluation& evaluation) {
  const data::Scaling scaling = trained.normaliser.scaling();
  return {{"checkpoint", config.checkpoint},
          {"updates", trained.updates},
          {"weights", name_of(trained.weights)},
          {"root", trained.config.data.root},
          {"part", config.part},
          {"n_cases", static_cast<int64_t>(evaluation.names.size())},
          {"window", config.window},
          {"overlap", config.overlap},
          {"windows", evaluation.windows},
          {"flips", config.mirror ? "y" : config.flips},
          {"precision", config.precision},
          {"hit_threshold", config.hit_threshold},
          {"normalisation", data::name_of(trained.normaliser.mode())},
          {"mean", scaling.mean},
          {"sigma", scaling.sigma}};
}

void write_tables(const EvaluateConfig& config, const TrainedModel& trained,
                  const Evaluation& evaluation) {
  for (const std::string& path : {config.output, config.json}) {
    const auto folder = std::filesystem::path(path).parent_path();
    if (!folder.empty()) std::filesystem::create_directories(folder);
  }
  const data::JsonRecord settings = settings_of(config, trained, evaluation);
  if (config.output.ends_with(".json"))
    write_scores_json(config.output, settings, evaluation);
  else
    write_scores(config.output, evaluation.scores);
  if (!config.json.empty()) write_scores_json(config.json, settings, evaluation);
}

/// Rank 0 predicts the telling cases again and draws them on one scale.
void draw_pictures(const EvaluateConfig& config, TrainedModel& trained, const EvaluationTask& task,
                   const Evaluation& evaluation, Collective& ranks) {
  work_apart(ranks, "drawing pictures", [&](Pulse& pulse) {
    if (ranks.rank() != 0) return;
    std::vector<data::SliceFigure> figures;
    std::vector<std::string> paths;
    for (const auto& [kind, i] : telling_cases(evaluation)) {
      const int64_t index = index_among_all(*task.part, i);
      const ScoredField scored = score_field(trained, task, index, [&] { pulse.beat(); });
      const data::WindCase& files = task.cases->all().at(index);
      figures.push_back(prediction_figure(trained.config.data, files, scored.sample, scored.field,
                                          config.height));
      figures.back().title +=
          ", the " + kind + " of " + std::to_string(evaluation.names.size()) + " by relative L2";
      paths.push_back(
          (std::filesystem::path(config.pictures) / (kind + "_" + files.name + ".png")).string());
    }
    share_scales(figures);
    std::filesystem::create_directories(config.pictures);
    for (size_t i = 0; i < figures.size(); ++i) {
      data::draw_slices(paths[i], figures[i]);
      log_info("picture: ", paths[i]);
    }
  });
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
  check_field_config(config, "evaluate");
  apps::set_compute_threads(session.local_size());
  CommunicatorOptions options;
  options.timeout_s = config.comm.timeout_s;
  const std::unique_ptr<Collective> ranks = make_communicator(session, options);
  apps::require_same_settings(*ranks, config_text(config));
  const apps::DeviceChoice choice = apps::choose_device(config.device, session, *ranks);
  if (session.rank() == 0) log_info("device: ", choice.text());
  TrainedModel trained;
  ranks->agree("loading " + config.checkpoint, [&] {
    trained = load_trained(config.checkpoint, choice.device, weights_from(config.weights));
  });
  flips_of(config, trained);  // refuses before anything is read
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
  const EvaluationTask task{
      .cases = &cases, .part = &part, .config = &config, .hit_threshold = config.hit_threshold};
  const Evaluation evaluation = evaluate(trained, task, *ranks);
  ranks->agree("writing " + config.output, [&] {
    if (session.rank() == 0) write_tables(config, trained, evaluation);
  });
  if (!config.pictures.empty()) draw_pictures(config, trained, task, evaluation, *ranks);
  if (session.rank() == 0) {
    const double seconds =
        std::accumulate(evaluation.seconds.begin(), evaluation.seconds.end(), 0.0) /
        static_cast<double>(part.size());
    std::printf("%ld %s cases, checkpoint %s (%ld updates, weights %s)\n%s\n%s s a case\n%s",
                static_cast<long>(part.size()), config.part.c_str(), config.checkpoint.c_str(),
                static_cast<long>(trained.updates), name_of(trained.weights),
                evaluation.windows.c_str(), apps::brief(seconds).c_str(),
                score_table(evaluation.scores).c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace bora::unet3d
