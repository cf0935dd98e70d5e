// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>

#include "apps/common/device_choice.hpp"
#include "apps/common/threads.hpp"
#include "apps/unet3d/commands.hpp"
#include "apps/unet3d/evaluation.hpp"
#include "apps/unet3d/picture.hpp"
#include "comm/communicator.hpp"
#include "core/build_info.hpp"
#include "core/log.hpp"

namespace bora::unet3d {
namespace {

struct PredictConfig {
  std::string checkpoint;
  std::string output = ".";
  std::string truth;
  std::string picture;
  double height = 10.0;
  std::vector<double> angle;
  bool mirror = false;
  std::string device = "auto";
  static constexpr auto fields() {
    return std::tuple{
        field("checkpoint", &PredictConfig::checkpoint, "the network: best.h5 or last.h5 of a run"),
        field("output", &PredictConfig::output,
              "folder for <case>_prediction.nc, or with one mask the file itself (a name ending in "
              ".nc)"),
        field("truth", &PredictConfig::truth, "wind file to compare with; only with one mask"),
        field("picture", &PredictConfig::picture,
              "PNG of truth, prediction and error; wants --truth"),
        field("height", &PredictConfig::height,
              "metres above ground of the picture's horizontal slice", at_least(0)),
        field("angle", &PredictConfig::angle,
              "wind angle in degrees, for a network that is told it; empty: from the mask's name"),
        field("mirror", &PredictConfig::mirror,
              "average with the prediction of the case mirrored in y"),
        field("device", &PredictConfig::device, "what computes, as in training",
              one_of("auto", "cpu", "cuda"))};
  }
};

void check(const PredictConfig& c, const std::vector<std::string>& masks) {
  if (c.checkpoint.empty())
    throw UsageError("predict: --checkpoint=FILE is wanted (best.h5 of a run)");
  if (masks.empty())
    throw UsageError(
        "predict: which building mask? Give one or more NetCDF files behind the options");
  if (masks.size() > 1 && !(c.truth.empty() && c.picture.empty()))
    throw UsageError("predict: --truth and --picture go with one mask file, " +
                     std::to_string(masks.size()) + " are given");
  if (!c.picture.empty() && c.truth.empty())
    throw UsageError("predict: --picture compares with the truth; give its file with --truth=FILE");
  if (c.angle.size() > 1)
    throw UsageError("predict: --angle wants one number, " + std::to_string(c.angle.size()) +
                     " are given");
  if (masks.size() > 1 && c.output.ends_with(".nc"))
    throw UsageError("predict: --output=" + c.output + " is one file for " +
                     std::to_string(masks.size()) + " masks; give a folder");
}

std::string output_path(const PredictConfig& c, const std::string& case_name) {
  return c.output.ends_with(".nc") ? c.output : c.output + "/" + case_name + "_prediction.nc";
}

void predict_one(const PredictConfig& c, TrainedModel& trained, const std::string& mask) {
  if (trained.normaliser.mode() == data::NormMode::per_sample && c.truth.empty())
    throw UsageError(
        "predict: " + trained.path +
        " was trained with per_sample normalisation, so a field without its truth has no "
        "scale in m/s; train with data.normalisation=global");
  data::WindConfig naming = trained.config.data;
  if (!c.angle.empty()) {
    if (!naming.angle_channels)
      throw UsageError("predict: --angle, but the network of " + trained.path +
                       " is not told the angle (it was trained without data.angle_channels)");
    naming.files.angle_patterns.clear();  // the name need not hold one
  }
  data::WindCase files = data::open_wind_case(naming, mask, c.truth);
  if (!c.angle.empty()) files.angle_deg = c.angle.front();
  if (!c.truth.empty() &&
      !std::filesystem::path(c.truth).filename().string().starts_with(files.name))
    log_warn("the truth ", c.truth, " has another name than the mask's case ", files.name);
  data::WindDataset dataset(trained.config.data, {files});
  dataset.normaliser() = trained.normaliser;
  const data::Sample sample = dataset.read(0, data::WindowChoice::centred());
  const Tensor field = predict_field(trained, sample, mirror_mode(c.mirror, trained));
  const std::string path = output_path(c, files.name);
  data::write_prediction(
      path, trained.config.data, files,
      data::put_back(field, sample.window, std::numeric_limits<double>::quiet_NaN()),
      {{"solver", "none: predicted by a neural network"},
       {"predicted_by", build_info_text()},
       {"checkpoint", trained.path + ", " + std::to_string(trained.updates) + " updates"}});
  log_info("prediction: ", path);
  if (!c.picture.empty()) {
    draw_prediction(c.picture, trained.config.data, files, sample, field, c.height);
    log_info("picture: ", c.picture);
  }
}

/// Two masks of one file name would write one file.
void check_names(const std::vector<std::string>& masks) {
  std::map<std::string, std::string> seen;
  for (const std::string& mask : masks) {
    const auto [it, fresh] = seen.emplace(std::filesystem::path(mask).filename().string(), mask);
    if (!fresh)
      throw UsageError("predict: " + it->second + " and " + mask + " would write the same file");
  }
}

}  // namespace

int predict_command(MpiSession& session, const std::vector<std::string>& args) {
  PredictConfig config;
  const ConfigArgs given =
      config_parse_args(config, "unet3d predict", args,
                        {.about = "Predicts wind fields from building masks and writes them as "
                                  "NetCDF on the masks' grids.",
                         .positionals = "MASK.nc ..."});
  if (!given.help.empty()) {
    if (session.rank() == 0) std::fputs(given.help.c_str(), stdout);
    return 0;
  }
  check(config, given.positionals);
  check_names(given.positionals);
  apps::set_compute_threads(session.local_size());
  const std::unique_ptr<Collective> ranks = make_communicator(session);
  const apps::DeviceChoice choice = apps::choose_device(config.device, session, *ranks);
  if (session.rank() == 0) log_info("device: ", choice.text());
  TrainedModel trained;
  ranks->agree("loading " + config.checkpoint,
               [&] { trained = load_trained(config.checkpoint, choice.device); });
  ranks->agree("predicting", [&] {
    if (!config.output.ends_with(".nc")) std::filesystem::create_directories(config.output);
    for (size_t i = static_cast<size_t>(ranks->rank()); i < given.positionals.size();
         i += static_cast<size_t>(ranks->size()))
      predict_one(config, trained, given.positionals[i]);
  });
  return 0;
}

}  // namespace bora::unet3d
