// SPDX-License-Identifier: Apache-2.0
// What `evaluate` does, by task: the command does the rest (settings, ranks, loading).
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "apps/unet3d/field.hpp"
#include "apps/unet3d/setup.hpp"
#include "core/collective.hpp"

namespace bora::unet3d {

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
                "the table, one row per case, predictor and region, or per case and class: a name "
                "ending in .csv, or in .json for JSON; others are refused"),
            field("json", &EvaluateConfig::json, "the same numbers as JSON, too"),
            field("pictures", &EvaluateConfig::pictures,
                  "folder for pictures of the best, the median and the worst case"),
            field("height", &EvaluateConfig::height,
                  "wind: metres above ground of the pictures' horizontal slice", at_least(0)),
            field("hit_threshold", &EvaluateConfig::hit_threshold,
                  "wind, m/s: an error up to this is a hit", positive)});
  }
};

/// Throws UsageError where the cases that are there today are not those of the run's split: "never
/// trained on" must be true.
void require_same_names(const std::string& root, const std::string& part,
                        const std::vector<std::string>& then, const std::vector<std::string>& now);
/// Makes the folders of the tables.
void make_table_folders(const EvaluateConfig& config);

/// Scores, writes and prints.  Collective; throw UsageError for settings that do not go with the
/// network, and Error.
void evaluate_wind(const EvaluateConfig& config, TrainedModel& trained, Collective& ranks);
void evaluate_segmentation(const EvaluateConfig& config, TrainedModel& trained, Collective& ranks);

}  // namespace bora::unet3d
