// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <string_view>

#include "apps/common/device_choice.hpp"
#include "apps/common/same_settings.hpp"
#include "apps/common/text.hpp"
#include "apps/common/threads.hpp"
#include "apps/unet3d/commands.hpp"
#include "apps/unet3d/field.hpp"
#include "apps/unet3d/picture.hpp"
#include "apps/unet3d/predict_inputs.hpp"
#include "apps/unet3d/pulse.hpp"
#include "comm/communicator.hpp"
#include "core/build_info.hpp"
#include "core/log.hpp"
#include "core/precision.hpp"
#include "data/netcdf.hpp"

namespace bora::unet3d {
namespace {

struct PredictConfig : FieldConfig {
  std::string output = ".";
  std::string truth;
  std::string picture;
  double height = 10.0;
  std::vector<double> angle;
  std::string existing = "replace";
  std::string on_bad_files = "refuse";
  static constexpr auto fields() {
    return std::tuple_cat(
        FieldConfig::fields(),
        std::tuple{
            field(
                "output", &PredictConfig::output,
                "folder for <case>_prediction.nc, or with one mask the file itself (a name ending "
                "in .nc); made if it is missing"),
            field("existing", &PredictConfig::existing, "where an output is there already",
                  one_of("replace", "skip", "refuse")),
            field(
                "on_bad_files", &PredictConfig::on_bad_files,
                "masks that cannot be read or predicted: stop, or go on with the others; the exit "
                "code is 1 either way",
                one_of("refuse", "skip")),
            field("truth", &PredictConfig::truth, "wind file to compare with; only with one mask"),
            field("picture", &PredictConfig::picture,
                  "PNG of truth, prediction and error; wants --truth"),
            field("height", &PredictConfig::height,
                  "metres above ground of the picture's horizontal slice", at_least(0)),
            field("angle", &PredictConfig::angle,
                  "wind angle in degrees, for a network that is told it; empty: from the mask's "
                  "name")});
  }
};

void check(const PredictConfig& c, const std::vector<std::string>& paths) {
  check_field_config(c, "predict");
  if (paths.empty())
    throw UsageError(
        "predict: which building mask? Give NetCDF files, or folders of them, behind the options");
  if (!c.picture.empty() && c.truth.empty())
    throw UsageError("predict: --picture compares with the truth; give its file with --truth=FILE");
  if (c.angle.size() > 1)
    throw UsageError("predict: --angle wants one number, " + std::to_string(c.angle.size()) +
                     " are given");
}

void check_fit(const PredictConfig& c, const TrainedModel& trained, size_t n_masks) {
  if (n_masks > 1 && !(c.truth.empty() && c.picture.empty()))
    throw UsageError("predict: --truth and --picture go with one mask file, " +
                     std::to_string(n_masks) + " are given");
  if (trained.normaliser.mode() == data::NormMode::per_sample && c.truth.empty())
    throw UsageError(
        "predict: " + trained.path +
        " was trained with per_sample normalisation, so a field without its truth has no "
        "scale in m/s; train with data.normalisation=global");
  if (!c.angle.empty() && !trained.config.data.angle_channels)
    throw UsageError("predict: --angle, but the network of " + trained.path +
                     " is not told the angle (it was trained without data.angle_channels)");
}

data::WindCase open_case(const PredictConfig& c, const TrainedModel& trained,
                         const std::string& mask) {
  data::WindConfig naming = trained.config.data;
  if (!c.angle.empty()) naming.files.angle_patterns.clear();  // the name need not hold one
  data::WindCase files = data::open_wind_case(naming, mask, c.truth);
  if (!c.angle.empty()) files.angle_deg = c.angle.front();
  return files;
}

/// Slabs of the area as slabs of the whole grid, NaN where nothing was predicted.
class FieldFile {
 public:
  FieldFile(std::unique_ptr<data::NetcdfLikeWriter> out, const data::Window& area)
      : out_(std::move(out)), area_(area) {
    fill(area_.begin.d);
  }
  void take(const Tensor& slab) {
    const data::Window planes{{slab.size(0), area_.grid.h, area_.grid.w},
                              {slab.size(0), area_.shape.h, area_.shape.w},
                              {0, area_.begin.h, area_.begin.w}};
    out_->write(data::put_back(slab, planes, std::numeric_limits<double>::quiet_NaN()));
  }
  void close() {
    fill(area_.grid.d - area_.begin.d - area_.shape.d);
    out_->close();
  }

 private:
  void fill(int64_t n) {
    const Tensor plane = Tensor::full({1, area_.grid.h, area_.grid.w},
                                      std::numeric_limits<double>::quiet_NaN(), DType::f32);
    for (int64_t i = 0; i < n; ++i) out_->write(plane);
  }
  std::unique_ptr<data::NetcdfLikeWriter> out_;
  data::Window area_;
};

class Predictor {
 public:
  Predictor(const PredictConfig& config, TrainedModel& trained)
      : config_(config),
        trained_(trained),
        mode_{flips_of(config, trained), precision_type(config.precision)} {}

  void predict(const PredictInput& input, Pulse& pulse) {
    const auto start = std::chrono::steady_clock::now();
    const data::WindCase files = open_case(config_, trained_, input.mask);
    if (!config_.truth.empty() &&
        !std::filesystem::path(config_.truth).filename().string().starts_with(files.name))
      log_warn("the truth ", config_.truth, " has another name than the mask's case ", files.name);
    FieldJob job{.plan = plan_field(config_, trained_, files.grid),
                 .scaling = trained_.normaliser.scaling(),
                 .mode = mode_};
    if (job.plan.text != told_) log_info(files.name, ": ", told_ = job.plan.text);
    const data::WindDataset cases = dataset(files);
    job.cases = &cases;
    data::Sample sample;  // with its truth, for its own scaling and the picture
    if (!config_.truth.empty()) {
      sample = cases.read_window(0, job.plan.area);
      job.scaling = sample.scaling;
    }
    job.after_window = [&] { pulse.beat(); };
    FieldFile out(
        data::prediction_writer(input.output, trained_.config.data, files, attributes(job.plan)),
        job.plan.area);
    Tensor field;  // of the picture
    if (config_.picture.empty()) {
      job.take = [&](int64_t, const Tensor& slab) { out.take(slab); };
      predict_field(trained_, job);
    } else {
      field = predict_whole_field(trained_, job);
      out.take(field);
    }
    out.close();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    log_info("prediction: ", input.output, " (", apps::brief(seconds), " s)");
    if (config_.picture.empty()) return;
    draw_prediction(config_.picture, trained_.config.data, files, sample, field, config_.height);
    log_info("picture: ", config_.picture);
  }

 private:
  data::WindDataset dataset(const data::WindCase& files) const {
    data::WindDataset cases(trained_.config.data, {files});
    cases.normaliser() = trained_.normaliser;
    return cases;
  }
  std::vector<std::pair<std::string, std::string>> attributes(const FieldPlan& plan) const {
    return {{"solver", "none: predicted by a neural network"},
            {"predicted_by", build_info_text()},
            {"checkpoint", trained_.path + ", " + std::to_string(trained_.updates) + " updates"},
            {"predicted_windows", plan.text}};
  }

  const PredictConfig& config_;
  TrainedModel& trained_;
  FieldMode mode_;
  std::string told_;  // the plan that was logged last
};

/// Adds "mask i: what is wrong" to a text for the other ranks.
void note(std::string& notes, size_t i, const std::string& problem) {
  notes += std::to_string(i) + ' ' + problem + '\0';
}

/// All ranks' notes, by mask.  Collective.
void gather_notes(const std::string& mine, std::vector<std::string>& problems, Collective& ranks) {
  for (const std::string& text : ranks.all_gather_text(mine, "masks"))
    for (size_t at = 0; at < text.size();) {
      const size_t space = text.find(' ', at), end = text.find('\0', at);
      problems.at(std::stoul(text.substr(at, space - at))) =
          text.substr(space + 1, end - space - 1);
      at = end + 1;
    }
}

/// Runs `body`; what goes wrong names the mask, also where it was found deep in a library.
void with_name_of(const std::string& mask, const std::function<void()>& body) {
  try {
    body();
  } catch (const UsageError&) {
    throw;
  } catch (const Error& e) {
    if (std::string_view(e.what()).find(mask) != std::string_view::npos) throw;
    throw Error("'" + mask + "': " + e.what());
  }
}

/// Looks into all masks, shared among the ranks; `bad[i]` is what is wrong with mask i.
std::vector<std::string> look_into(const PredictConfig& config, const TrainedModel& trained,
                                   const std::vector<PredictInput>& inputs, Collective& ranks) {
  std::string mine;
  ranks.agree("looking into the masks", [&] {
    for (size_t i = static_cast<size_t>(ranks.rank()); i < inputs.size();
         i += static_cast<size_t>(ranks.size())) {
      try {
        with_name_of(inputs[i].mask, [&] {
          plan_field(config, trained, open_case(config, trained, inputs[i].mask).grid);
        });
      } catch (const UsageError&) {
        throw;  // no fault of the file's
      } catch (const Error& e) {
        note(mine, i, e.what());
      }
    }
  });
  std::vector<std::string> bad(inputs.size());
  gather_notes(mine, bad, ranks);
  return bad;
}

constexpr size_t kListed = 20;  // lines of a message; a broken copy has hundreds

std::string listed(const std::vector<std::string>& problems, size_t n_masks) {
  size_t n = 0;
  std::string text;
  for (const std::string& p : problems)
    if (!p.empty() && n++ < kListed) text += "\n  " + p;
  if (n > kListed) text += "\n  and " + std::to_string(n - kListed) + " more";
  return detail::join(n, " of ", n_masks, n_masks == 1 ? " mask" : " masks", text);
}

bool any(const std::vector<std::string>& problems) {
  return std::any_of(problems.begin(), problems.end(), [](const auto& p) { return !p.empty(); });
}

/// Predicts what is good; returns what became of each mask, on all ranks.
std::vector<std::string> predict_all(const PredictConfig& config, TrainedModel& trained,
                                     const std::vector<PredictInput>& inputs,
                                     std::vector<std::string> bad, Collective& ranks) {
  const bool skip = config.on_bad_files == "skip";
  std::string mine;
  work_apart(ranks, "predicting", [&](Pulse& pulse) {
    Predictor predictor(config, trained);
    size_t place = 0;  // among the good ones
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!bad[i].empty() ||
          place++ % static_cast<size_t>(ranks.size()) != static_cast<size_t>(ranks.rank()))
        continue;
      try {
        const auto folder = std::filesystem::path(inputs[i].output).parent_path();
        if (!folder.empty()) std::filesystem::create_directories(folder);
        with_name_of(inputs[i].mask, [&] { predictor.predict(inputs[i], pulse); });
      } catch (const UsageError&) {
        throw;
      } catch (const Error& e) {
        if (!skip) throw;
        log_warn("left out: ", e.what());
        note(mine, i, e.what());
      }
    }
  });
  gather_notes(mine, bad, ranks);
  return bad;
}

}  // namespace

int predict_command(MpiSession& session, const std::vector<std::string>& args) {
  PredictConfig config;
  const ConfigArgs given =
      config_parse_args(config, "unet3d predict", args,
                        {.about = "Predicts wind fields from building masks and writes them as "
                                  "NetCDF on the masks' grids.",
                         .positionals = "MASK.nc|FOLDER ..."});
  if (!given.help.empty()) {
    if (session.rank() == 0) std::fputs(given.help.c_str(), stdout);
    return 0;
  }
  check(config, given.positionals);
  apps::set_compute_threads(session.local_size());
  CommunicatorOptions options;
  options.timeout_s = config.comm.timeout_s;
  const std::unique_ptr<Collective> ranks = make_communicator(session, options);
  std::string settings = config_text(config);
  for (const std::string& path : given.positionals) settings += "\n" + path;
  apps::require_same_settings(*ranks, settings);
  const apps::DeviceChoice choice = apps::choose_device(config.device, session, *ranks);
  if (session.rank() == 0) log_info("device: ", choice.text());
  TrainedModel trained;
  ranks->agree("loading " + config.checkpoint, [&] {
    trained = load_trained(config.checkpoint, choice.device, weights_from(config.weights));
  });
  flips_of(config, trained);  // refuses before anything is read
  std::vector<PredictInput> inputs = find_predict_inputs(
      given.positionals, config.output, trained.config.data, {config.truth}, *ranks);
  check_fit(config, trained, inputs.size());
  const size_t n_found = inputs.size();
  inputs = without_existing(std::move(inputs), existing_from(config.existing), *ranks);
  if (session.rank() == 0 && inputs.size() < n_found)
    log_info(n_found - inputs.size(), " of ", n_found, " masks have a prediction already");
  const std::vector<std::string> bad = look_into(config, trained, inputs, *ranks);
  if (any(bad)) {
    const std::string text = listed(bad, inputs.size());
    BORA_CHECK(config.on_bad_files == "skip", "predict: nothing was predicted, for ", text,
               inputs.size() > 1 ? "\n(--on_bad_files=skip leaves such masks out)" : "");
    if (session.rank() == 0) log_warn("left out: ", text);
  }
  const std::vector<std::string> failed = predict_all(config, trained, inputs, bad, *ranks);
  BORA_CHECK(!any(failed), "predict: no prediction for ", listed(failed, inputs.size()));
  return 0;
}

}  // namespace bora::unet3d
