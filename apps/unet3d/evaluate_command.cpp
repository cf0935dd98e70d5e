// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "apps/common/device_choice.hpp"
#include "apps/common/same_settings.hpp"
#include "apps/common/threads.hpp"
#include "apps/unet3d/commands.hpp"
#include "apps/unet3d/evaluate.hpp"
#include "comm/communicator.hpp"
#include "core/log.hpp"
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
  if (!given.help.empty()) {
    if (session.rank() == 0) std::fputs(given.help.c_str(), stdout);
    return 0;
  }
  check_field_config(config, "evaluate");
  check_outputs(config);
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
  if (is_segmentation(trained.config))
    evaluate_segmentation(config, trained, *ranks);
  else
    evaluate_wind(config, trained, *ranks);
  return 0;
}

}  // namespace bora::unet3d
