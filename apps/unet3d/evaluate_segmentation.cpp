// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <filesystem>

#include "apps/common/text.hpp"
#include "apps/unet3d/evaluate.hpp"
#include "apps/unet3d/orientation_check.hpp"
#include "apps/unet3d/pulse.hpp"
#include "apps/unet3d/segmentation_evaluation.hpp"
#include "core/log.hpp"
#include "data/output_place.hpp"

namespace bora::unet3d {
namespace {

void check(const EvaluateConfig& config, const TrainedModel& trained) {
  check_class_config(config, "evaluate");
  const EvaluateConfig usual;
  for (const auto& [changed, option] :
       {std::pair{config.height != usual.height, "height"},
        std::pair{config.hit_threshold != usual.hit_threshold, "hit_threshold"}})
    if (changed)
      throw UsageError(std::string("evaluate: --") + option + " is for task=wind; " + trained.path +
                       " names classes");
}

data::JsonRecord settings_of(const EvaluateConfig& config, const TrainedModel& trained,
                             const SegmentationScores& scores) {
  return {{"checkpoint", config.checkpoint},
          {"updates", trained.updates},
          {"weights", name_of(trained.weights)},
          {"root", trained.config.volumes.root},
          {"part", config.part},
          {"n_cases", static_cast<int64_t>(scores.cases.size())},
          {"classes", class_list(scores.classes)},
          {"empty_class", trained.config.segmentation.empty_class},
          {"window", config.window},
          {"overlap", config.overlap},
          {"windows", scores.windows},
          {"precision", config.precision}};
}

void write_tables(const EvaluateConfig& config, const TrainedModel& trained,
                  const SegmentationScores& scores) {
  make_table_folders(config);
  const data::JsonRecord settings = settings_of(config, trained, scores);
  if (config.output.ends_with(".json"))
    write_class_scores_json(config.output, settings, scores);
  else
    write_class_scores(config.output, scores);
  if (!config.json.empty()) write_class_scores_json(config.json, settings, scores);
}

/// Rank 0 predicts the telling cases again and draws them.
void draw_pictures(const EvaluateConfig& config, TrainedModel& trained,
                   const SegmentationCases& cases, const std::vector<int64_t>& part,
                   const SegmentationScores& scores, Collective& ranks) {
  work_apart(ranks, "drawing pictures", [&](Pulse& pulse) {
    if (ranks.rank() != 0) return;
    data::make_folder(config.pictures, "evaluate: --pictures=" + config.pictures);
    for (const auto& [kind, i] : telling_volumes(scores)) {
      data::ClassFigure figure =
          class_figure(trained, cases, part.at(i), config, [&] { pulse.beat(); });
      figure.title += ", the " + kind + " of " + std::to_string(scores.cases.size()) + " by Dice";
      const std::string path =
          (std::filesystem::path(config.pictures) / (kind + "_" + scores.cases[i].name + ".png"))
              .string();
      // The name of a case is that of its folders, where its file has none.
      data::make_folder_of(path, "evaluate: --pictures=" + config.pictures);
      data::draw_classes(path, figure);
      log_info("picture: ", path);
    }
  });
}

}  // namespace

void evaluate_segmentation(const EvaluateConfig& config, TrainedModel& trained, Collective& ranks) {
  check(config, trained);  // refuses before anything is read
  if (!config.root.empty()) trained.config.volumes.root = config.root;
  trained.config.volumes.cache.kind = "none";  // each case is read once
  data::SplitConfig split = trained.config.split;
  if (config.part == "all") {  // of other data, perhaps one case
    split = {};
    split.validation = 0;
  }
  const SegmentationCases cases(trained.config.volumes, split, ranks, trained.images.get());
  const std::string& root = trained.config.volumes.root;
  if (config.part != "all")
    for (const auto& [part, names] :
         {std::pair{"training", &trained.training}, std::pair{"validation", &trained.validation},
          std::pair{"test", &trained.test}})
      require_same_names(root, part, *names, cases.names(part));
  const std::vector<int64_t> part = cases.part(config.part);
  if (part.empty())
    throw UsageError("evaluate: the run has no " + config.part + " cases; choose another --part (" +
                     std::to_string(trained.training.size()) + " training, " +
                     std::to_string(trained.validation.size()) + " validation, " +
                     std::to_string(trained.test.size()) + " test)");
  if (ranks.rank() == 0) {
    std::vector<OrientedFile> files;
    for (const int64_t i : part) {
      const data::VolumeCase& c = cases.all().at(i);
      files.push_back({c.image.path, c.orientation});
    }
    warn_of_orientation(trained.path, trained.orientation, files);
  }
  const SegmentationScores scores = score_volumes(trained, cases, part, config, ranks);
  ranks.agree("writing " + config.output, [&] {
    if (ranks.rank() == 0) write_tables(config, trained, scores);
  });
  if (!config.pictures.empty()) draw_pictures(config, trained, cases, part, scores, ranks);
  if (ranks.rank() != 0) return;
  double seconds = 0;
  for (const ScoredVolume& c : scores.cases) seconds += c.seconds;
  std::printf("%zu %s cases, checkpoint %s (%ld updates, weights %s)\n%s\n%s s a case\n%s",
              part.size(), config.part.c_str(), config.checkpoint.c_str(),
              static_cast<long>(trained.updates), name_of(trained.weights), scores.windows.c_str(),
              apps::brief(seconds / static_cast<double>(part.size())).c_str(),
              class_table(scores).c_str());
  const std::string& empty = trained.config.segmentation.empty_class;
  std::printf("a class that truth and prediction of a case lack: %s (segmentation.empty_class)\n",
              empty == "skip" ? "not counted" : ("Dice " + empty).c_str());
  std::fflush(stdout);
}

}  // namespace bora::unet3d
