// SPDX-License-Identifier: Apache-2.0
// Prediction of wind fields from building masks.
#include <chrono>
#include <filesystem>
#include <limits>

#include "apps/common/text.hpp"
#include "apps/unet3d/picture.hpp"
#include "apps/unet3d/predictor.hpp"
#include "core/build_info.hpp"
#include "core/log.hpp"
#include "core/precision.hpp"
#include "data/netcdf.hpp"

namespace bora::unet3d {
namespace {

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

class WindPredictor final : public Predictor {
 public:
  WindPredictor(const PredictConfig& config, TrainedModel& trained)
      : config_(config),
        trained_(trained),
        mode_{flips_of(config, trained), precision_type(config.precision)} {
    if (config.probabilities)
      throw UsageError("predict: --probabilities is for task=segmentation; " + trained.path +
                       " predicts wind");
    if (!config.picture.empty() && config.truth.empty())
      throw UsageError(
          "predict: --picture compares with the truth; give its file with --truth=FILE");
    if (config.angle.size() > 1)
      throw UsageError("predict: --angle wants one number, " + std::to_string(config.angle.size()) +
                       " are given");
  }

  PredictNames names() const override {
    return {.what = "mask",
            .suffix = trained_.config.data.files.mask_suffix,
            .suffix_key = "data.files.mask_suffix",
            .output =
                [data = trained_.config.data](const std::string& mask) {
                  return data::wind_case_name(data, mask) + "_prediction.nc";
                },
            .is_file = [](const std::string& output) { return output.ends_with(".nc"); },
            .suffixes = ".nc"};
  }

  void check_fit(size_t n_masks) const override {
    const PredictConfig& c = config_;
    if (n_masks > 1 && !(c.truth.empty() && c.picture.empty()))
      throw UsageError("predict: --truth and --picture go with one mask file, " +
                       std::to_string(n_masks) + " are given");
    if (trained_.normaliser.mode() == data::NormMode::per_sample && c.truth.empty())
      throw UsageError(
          "predict: " + trained_.path +
          " was trained with per_sample normalisation, so a field without its truth has no "
          "scale in m/s; train with data.normalisation=global");
    if (!c.angle.empty() && !trained_.config.data.angle_channels)
      throw UsageError("predict: --angle, but the network of " + trained_.path +
                       " is not told the angle (it was trained without data.angle_channels)");
  }

  std::string look_into(const std::string& mask) const override {
    plan_field(config_, trained_, open_case(config_, trained_, mask).grid);
    return {};
  }

  void predict(const PredictInput& input, Pulse& pulse) override {
    const auto start = std::chrono::steady_clock::now();
    const data::WindCase files = open_case(config_, trained_, input.file);
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

}  // namespace

std::unique_ptr<Predictor> make_wind_predictor(const PredictConfig& config, TrainedModel& trained) {
  return std::make_unique<WindPredictor>(config, trained);
}

}  // namespace bora::unet3d
