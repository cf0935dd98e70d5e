// SPDX-License-Identifier: Apache-2.0
// Prediction of classes from images.
#include <algorithm>
#include <chrono>
#include <utility>

#include "apps/common/text.hpp"
#include "apps/unet3d/class_field.hpp"
#include "apps/unet3d/class_scores.hpp"
#include "apps/unet3d/label_values.hpp"
#include "apps/unet3d/orientation_check.hpp"
#include "apps/unet3d/predictor.hpp"
#include "apps/unet3d/segmentation_cases.hpp"
#include "apps/unet3d/volume_output.hpp"
#include "core/build_info.hpp"
#include "core/log.hpp"
#include "core/precision.hpp"

namespace bora::unet3d {
namespace {

class SegmentationPredictor final : public Predictor {
 public:
  SegmentationPredictor(const PredictConfig& config, TrainedModel& trained)
      : config_(config), trained_(trained), values_(label_values(trained.config.volumes)) {
    check_class_config(config, "predict");
    for (const auto& [given, option] :
         {std::pair{!config.truth.empty(), "truth"}, std::pair{!config.picture.empty(), "picture"},
          std::pair{!config.angle.empty(), "angle"},
          std::pair{config.height != PredictConfig{}.height, "height"}})
      if (given)
        throw UsageError(std::string("predict: --") + option + " is for task=wind; " +
                         trained.path + " names classes (unet3d evaluate compares with labels)");
  }

  PredictNames names() const override {
    const data::VolumesConfig& volumes = trained_.config.volumes;
    return {.what = "image",
            .suffix = volumes.image_suffix,
            .suffix_key = "volumes.image_suffix",
            .output =
                [volumes](const std::string& image) {
                  return data::volume_case_name(volumes, image) + "_prediction" +
                         output_ending(image);
                },
            .is_file = is_output_file,
            .suffixes = ".nii.gz, .nii, .h5, .hdf5 or .nc"};
  }

  std::string look_into(const std::string& image) const override {
    const data::VolumeCase files = open(image);
    plan(files);
    return files.orientation;
  }
  void tell_of(const std::vector<PredictInput>& inputs,
               const std::vector<std::string>& orientations) const override {
    std::vector<OrientedFile> images;
    for (size_t i = 0; i < inputs.size(); ++i) images.push_back({inputs[i].file, orientations[i]});
    warn_of_orientation(trained_.path, trained_.orientation, images);
  }

  void predict(const PredictInput& input, Pulse& pulse) override {
    const auto start = std::chrono::steady_clock::now();
    const data::VolumeCase files = open(input.file);
    data::VolumeDataset cases(trained_.config.volumes, {files});
    cases.normaliser() = *trained_.images;
    ClassJob job{.cases = &cases, .plan = plan(files)};
    job.compute = precision_type(config_.precision);
    job.after_window = [&] { pulse.beat(); };
    if (job.plan.text != told_) log_info(files.name, ": ", told_ = job.plan.text);

    const data::VolumeInfo like = data::open_volume(files.image)->info();
    const std::unique_ptr<VolumeOutput> labels =
        make_volume_output(input.output, like,
                           {.variable = trained_.config.volumes.label_variable,
                            .type = values_.type,
                            .order = order(),
                            .attributes = attributes(job.plan)});
    std::unique_ptr<VolumeOutput> probabilities;
    const std::string beside = probabilities_path(input.output);
    if (config_.probabilities)
      probabilities = make_volume_output(beside, like,
                                         {.variable = "probabilities",
                                          .type = DType::f32,
                                          .channels = trained_.model->out_channels(),
                                          .order = order(),
                                          .attributes = attributes(job.plan)});
    std::vector<int64_t> cells(static_cast<size_t>(trained_.model->out_channels()), 0);
    job.take = [&](int64_t, Tensor& logits) {
      const Tensor classes = largest_class(logits, "'" + input.file + "'");
      for (int64_t i = 0; i < classes.numel(); ++i) ++cells[classes.data<uint8_t>()[i]];
      labels->write(values_.restore(classes));
      if (!probabilities) return;
      softmax(logits);
      probabilities->write(logits);
    };
    predict_classes(trained_, job);
    labels->close();
    if (probabilities) probabilities->close();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    log_info("prediction: ", input.output, " (", shares(cells), "; ", apps::brief(seconds), " s)");
    if (probabilities) log_info("probabilities: ", beside);
    if (!std::exchange(values_told_, true) && !values_.text.empty()) log_info(values_.text);
  }

 private:
  data::VolumeCase open(const std::string& image) const {
    data::VolumeCase files = data::open_volume_case(trained_.config.volumes, image);
    BORA_CHECK(files.channels == trained_.model->in_channels(), "'", image, "': ", files.channels,
               files.channels == 1 ? " channel" : " channels", ", the network of ", trained_.path,
               " wants ", trained_.model->in_channels());
    return files;
  }
  ClassPlan plan(const data::VolumeCase& files) const {
    return plan_classes(config_, trained_, files.box.count);
  }

  /// The spatial axes of the run's arrays.
  std::string order() const {
    std::string axes;
    for (const char axis : trained_.config.volumes.order)
      if (axis != 'c') axes += axis;
    return axes;
  }

  std::vector<std::pair<std::string, std::string>> attributes(const ClassPlan& plan) const {
    return {{"predicted_by", build_info_text()},
            {"checkpoint", trained_.path + ", " + std::to_string(trained_.updates) + " updates"},
            {"classes", class_list(trained_.config.volumes.classes)},
            {"predicted_windows", plan.text}};
  }

  /// "a_prediction.nii.gz" -> "a_probabilities.nii.gz".
  static std::string probabilities_path(const std::string& output) {
    const size_t name = output.find_last_of('/') + 1;  // 0 without a folder
    const size_t word = output.rfind("_prediction");
    if (word != output.npos && word >= name)
      return output.substr(0, word) + "_probabilities" + output.substr(word + 11);
    const size_t dot = std::min(output.find('.', name + 1), output.size());
    return output.substr(0, dot) + "_probabilities" + output.substr(dot);
  }

  std::string shares(const std::vector<int64_t>& cells) const {
    int64_t all = 0;
    for (const int64_t n : cells) all += n;
    std::string text;
    for (size_t k = 1; k < std::min<size_t>(cells.size(), 6); ++k)
      text += detail::join(k == 1 ? "" : ", ", trained_.config.volumes.classes.at(k), ' ',
                           apps::brief(100.0 * static_cast<double>(cells[k]) /
                                       static_cast<double>(std::max<int64_t>(all, 1))),
                           " %");
    return text + (cells.size() > 6 ? ", ..." : "");
  }

  const PredictConfig& config_;
  TrainedModel& trained_;
  LabelValues values_;
  std::string told_;  // the plan that was logged last
  bool values_told_ = false;
};

}  // namespace

std::unique_ptr<Predictor> make_segmentation_predictor(const PredictConfig& config,
                                                       TrainedModel& trained) {
  return std::make_unique<SegmentationPredictor>(config, trained);
}

}  // namespace bora::unet3d
