// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <filesystem>
#include <numeric>

#include "apps/common/text.hpp"
#include "apps/unet3d/evaluate.hpp"
#include "apps/unet3d/evaluation.hpp"
#include "apps/unet3d/picture.hpp"
#include "apps/unet3d/pulse.hpp"
#include "core/log.hpp"
#include "data/output_place.hpp"

namespace bora::unet3d {
namespace {

void require_same_split(const TrainedModel& trained, const Cases& cases) {
  const std::string& root = trained.config.data.root;
  require_same_names(root, "training", trained.training, names_of(cases.training()));
  require_same_names(root, "validation", trained.validation, names_of(cases.validation()));
  require_same_names(root, "test", trained.test, names_of(cases.test()));
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
  make_table_folders(config);
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
    data::make_folder(config.pictures, "evaluate: --pictures=" + config.pictures);
    for (size_t i = 0; i < figures.size(); ++i) {
      data::draw_slices(paths[i], figures[i]);
      log_info("picture: ", paths[i]);
    }
  });
}

}  // namespace

void evaluate_wind(const EvaluateConfig& config, TrainedModel& trained, Collective& ranks) {
  flips_of(config, trained);  // refuses before anything is read
  if (!config.root.empty()) trained.config.data.root = config.root;
  const Cases cases(trained.config.data, trained.config.split, ranks, &trained.normaliser);
  if (config.part != "all") require_same_split(trained, cases);
  if (trained.normaliser.mode() == data::NormMode::per_sample && ranks.rank() == 0)
    log_warn(
        "the network was trained with per_sample normalisation: its fields are scaled with each "
        "truth's own mean and "
        "sigma, which no prediction of a new case has");
  const data::Dataset& part = cases.part(config.part);
  if (part.size() == 0)
    throw UsageError("evaluate: the run has no " + config.part +
                     " cases; choose another --part (split.test of the run was " +
                     apps::brief(trained.config.split.test) + ")");
  const EvaluationTask task{
      .cases = &cases, .part = &part, .config = &config, .hit_threshold = config.hit_threshold};
  const Evaluation evaluation = evaluate(trained, task, ranks);
  ranks.agree("writing " + config.output, [&] {
    if (ranks.rank() == 0) write_tables(config, trained, evaluation);
  });
  if (!config.pictures.empty()) draw_pictures(config, trained, task, evaluation, ranks);
  if (ranks.rank() == 0) {
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
}

}  // namespace bora::unet3d
