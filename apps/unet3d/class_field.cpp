// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/class_field.hpp"

#include <algorithm>
#include <cmath>

namespace bora::unet3d {
namespace {

/// The image for the windows, read where it is not in memory.
class ImageReader {
 public:
  explicit ImageReader(const ClassJob& job) : job_(job) {
    const data::Window& frame = job.plan.frame;
    if (job.image.defined()) {
      slab_ = framed(job.image, frame, padding_of(job.image, job.cases->config().padding));
      first_ = frame.begin.d;
    }
    at_once_ =
        frame.shape.count() * job.cases->n_channels() * static_cast<int64_t>(sizeof(float)) <=
                kImageAtOnce
            ? frame.shape.d
            : job.plan.layout.window.d;
  }

  Tensor read(const data::Window& window) {
    if (!slab_.defined() || window.begin.d < first_ ||
        window.begin.d + window.shape.d > first_ + slab_.size(0)) {
      const data::Window& frame = job_.plan.frame;
      first_ = at_once_ == frame.shape.d ? frame.begin.d : window.begin.d;
      slab_ = Tensor();  // before the next one takes as much
      slab_ = job_.cases
                  ->read_image_window(job_.index, {frame.grid,
                                                   {at_once_, frame.shape.h, frame.shape.w},
                                                   {first_, frame.begin.h, frame.begin.w}})
                  .input;
    }
    return cut_from_frame(slab_, first_, job_.plan, window);
  }

 private:
  const ClassJob& job_;
  Tensor slab_;  // of the frame
  int64_t first_ = 0, at_once_ = 0;
};

}  // namespace

void check_class_config(const FieldConfig& config, const std::string& command) {
  if (config.mirror || config.flips != "none")
    throw UsageError(command + ": --" + (config.mirror ? "mirror" : "flips=" + config.flips) +
                     " is for task=wind; a network for classes sees each image once");
  if (config.window == "centred")
    throw UsageError(command +
                     ": --window=centred is for task=wind; wanted auto, whole, or three extents "
                     "like 64x64x64");
}

ClassPlan plan_classes(const FieldConfig& config, const TrainedModel& trained, const Dims3& grid) {
  Dims3 wanted = trained.config.volumes.patch;
  std::string why = wanted == Dims3{} ? "the run was trained on whole volumes"
                                      : detail::join("the run was trained on patches of ",
                                                     data::window_shape(grid, wanted));
  if (config.window == "whole") {
    wanted = {};
    why = "--window=whole";
  } else if (config.window != "auto") {
    wanted = window_extents(config.window);
    why = "as --window says";
  }
  const Dims3 window = data::window_shape(grid, wanted);
  const int64_t least = trained.model->min_extent();
  if (window.d < least || window.h < least || window.w < least)
    throw Error(detail::join("windows of ", window, " cells (", why,
                             "), the network wants at least ", least,
                             " along each axis: give larger ones, --window=64x64x64"));
  ClassPlan plan = plan_classes(wanted, grid, config.overlap);
  plan.text += " (" + why + ")";
  return plan;
}

void predict_classes(TrainedModel& trained, const ClassJob& job) {
  BORA_CHECK(job.cases != nullptr && job.take, "predict_classes: a job without cases or `take`");
  ImageReader reader(job);
  slide(job.plan.layout, {.read = [&](const data::Window& window) { return reader.read(window); },
                          .predict =
                              [&](const Tensor& input) {
                                Tensor out = predict_window(trained, input, 0,
                                                            {.flips = {}, .compute = job.compute});
                                job.after_window();
                                return out;
                              },
                          .take = job.take});
}

void softmax(Tensor& logits) {
  BORA_CHECK(logits.dtype() == DType::f32 && logits.rank() >= 1, "softmax: ", logits.shape(), ' ',
             logits.dtype(), ", wanted (..., K) f32");
  const int64_t classes = logits.size(-1);
  float* y = logits.data<float>();
  std::vector<double> e(static_cast<size_t>(classes));
  for (int64_t i = 0; i < logits.numel(); i += classes, y += classes) {
    const double most = *std::max_element(y, y + classes);
    double sum = 0;
    for (int64_t k = 0; k < classes; ++k) sum += e[static_cast<size_t>(k)] = std::exp(y[k] - most);
    for (int64_t k = 0; k < classes; ++k)
      y[k] = static_cast<float>(e[static_cast<size_t>(k)] / sum);
  }
}

}  // namespace bora::unet3d
