// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include "apps/common/help.hpp"
#include "apps/unet3d/commands.hpp"
#include "apps/unet3d/evaluate.hpp"
#include "apps/unet3d/field_run.hpp"
#include "data/output_place.hpp"

namespace bora::unet3d {

void require_same_names(const std::string& root, const std::string& part,
                        const std::vector<std::string>& then, const std::vector<std::string>& now) {
  for (size_t i = 0; i < std::max(now.size(), then.size()); ++i) {
    const std::string before = i < then.size() ? then[i] : "(none)";
    const std::string today = i < now.size() ? now[i] : "(none)";
    if (before != today)
      throw UsageError(detail::join("evaluate: the cases in ", root, " are not those of the run: ",
                                    part, " case ", i, " was ", before, ", now ", today,
                                    ". Give the run's own folder, or --part=all for other data"));
  }
}

void make_table_folders(const EvaluateConfig& config) {
  data::make_folder_of(config.output, "evaluate: --output=" + config.output);
  if (!config.json.empty()) data::make_folder_of(config.json, "evaluate: --json=" + config.json);
}

namespace {

/// Before anything is read.
void check_outputs(const EvaluateConfig& config) {
  const std::string output = "evaluate: --output=" + config.output;
  data::require_suffix(config.output, {".csv", ".json"}, output);
  data::check_folder_of(config.output, output);
  if (!config.json.empty()) {
    const std::string json = "evaluate: --json=" + config.json;
    data::require_suffix(config.json, {".json"}, json);
    data::check_folder_of(config.json, json);
  }
  if (config.pictures.empty()) return;
  const std::string pictures = "evaluate: --pictures=" + config.pictures;
  std::error_code ignored;
  if (data::has_file_suffix(config.pictures) &&
      !std::filesystem::is_directory(config.pictures, ignored))
    throw UsageError(pictures + ": wanted a folder; the pictures there are PNG files");
  data::check_folder(config.pictures, pictures);
}

}  // namespace

int evaluate_command(MpiSession& session, const std::vector<std::string>& args) {
  EvaluateConfig config;
  const ConfigArgs given = config_parse_args(
      config, "unet3d evaluate", args,
      {.about =
           "Scores a checkpoint on whole cases.  Wind: beside predictors that any network must "
           "beat: the domain's mean, the mean vertical profile and the mean field, fitted on the "
           "training cases.  Segmentation: Dice, IoU, precision, recall and volume of each class.",
       .positionals = {}});
  if (apps::print_help(session, given)) return 0;
  check_field_config(config, "evaluate");
  check_outputs(config);
  auto [ranks, trained] = start_field_run(session, config, config_text(config));
  if (is_segmentation(trained.config))
    evaluate_segmentation(config, trained, *ranks);
  else
    evaluate_wind(config, trained, *ranks);
  return 0;
}

}  // namespace bora::unet3d
