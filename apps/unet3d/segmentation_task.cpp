// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/segmentation_task.hpp"

#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "apps/common/text.hpp"
#include "apps/unet3d/class_windows.hpp"
#include "apps/unet3d/segmentation_loss.hpp"
#include "apps/unet3d/setup.hpp"
#include "data/class_figure.hpp"
#include "data/volume_file.hpp"

namespace bora::unet3d {
namespace {

/// More classes than this have their own figures in the log alone.
constexpr int64_t kClassesInLine = 5;

std::string of_class(const char* what, int64_t k) { return what + std::to_string(k); }

void check_settings(const Config& config) {
  check_task_keys(config);
  check_network(config);
  check_loss(config.segmentation);
  if (config.volumes.root.empty())
    throw UsageError(
        "volumes.root is not set: wanted the folder of the cases (--volumes.root=DIR)");
  if (config.model.deep_supervision > 0)
    throw UsageError(
        "model.deep_supervision with task=segmentation: losses on the levels below the top are "
        "there for task=wind alone; wanted 0");
  if (const size_t n = config.segmentation.overlap.size(); n != 1 && n != 3)
    throw UsageError(
        detail::join("segmentation.overlap has ", n, " numbers, wanted one, or one for each axis"));
}

}  // namespace

SegmentationTask::SegmentationTask(const Config& config, Collective& ranks)
    : ConfiguredTask(config), empty_(empty_class_from(config.segmentation.empty_class)) {
  check_settings(config);
  cases_ = std::make_unique<SegmentationCases>(config.volumes, config.split, ranks);
  model_ = make_model(config, cases_->all().n_channels());
  cases_->require_extents(model_->min_extent(), config.model.levels);
  if (config.train.batch > 1) cases_->require_one_shape();
}

std::vector<std::string> SegmentationTask::loss_names() const {
  return unet3d::loss_names(config().segmentation);
}

train::Loss SegmentationTask::loss(const data::Batch& batch) {
  return compute_loss(config().segmentation, model_->forward(batch.input), batch.target,
                      batch.region, batch.weight);
}

std::vector<std::string> SegmentationTask::score_names() const {
  std::vector<std::string> names;
  for (int64_t k = 1; k < n_classes(); ++k)
    for (const char* what : {"both_", "truth_", "predicted_", "dice_"})
      names.push_back(of_class(what, k));
  return names;
}

void SegmentationTask::predict(const Tensor& batch, Device device,
                               const std::function<void(int64_t, Tensor&)>& take) {
  const Tensor input = batch.reshape({batch.size(1), batch.size(2), batch.size(3), batch.size(4)});
  const ClassPlan plan =
      plan_classes(config().volumes.patch, {input.size(0), input.size(1), input.size(2)},
                   config().segmentation.overlap);
  const Tensor frame =
      framed(input, plan.frame, padding_of(input, config().volumes.padding));  // (X, Y, Z, C)
  slide(plan.layout, {.read =
                          [&](const data::Window& window) {
                            return cut_from_frame(frame, plan.frame.begin.d, plan, window);
                          },
                      .predict =
                          [&](const Tensor& window) {
                            const Shape s = window.shape();
                            const Tensor y = model_->forward(
                                window.reshape({1, s[0], s[1], s[2], s[3]}).to(device));
                            return y.reshape({s[0], s[1], s[2], y.size(4)});
                          },
                      .take = take});
}

train::Validated SegmentationTask::validate(const data::Batch& batch, Device device) {
  const std::string what = "the validation case " + batch.names.at(0);
  const Shape cells{batch.target.size(1), batch.target.size(2), batch.target.size(3)};
  const Tensor truth = batch.target.reshape(cells), region = batch.region.reshape(cells),
               weight = batch.weight.defined() ? batch.weight.reshape(cells) : Tensor();
  CaseLoss sums(n_classes());
  std::vector<ClassCounts> counts(static_cast<size_t>(n_classes()));
  predict(batch.input, device, [&](int64_t first, Tensor& logits) {
    const int64_t n = logits.size(0);
    const Tensor slab = truth.rows(first, first + n), counted = region.rows(first, first + n);
    sums.add(logits, slab, counted, weight.defined() ? weight.rows(first, first + n) : Tensor());
    count_classes(slab, largest_class(logits, what), counted, what, counts);
  });
  int64_t scored = 0;
  for (const ClassCounts& c : counts) scored += c.truth;
  BORA_CHECK(scored > 0, what, " has no cell that counts: it cannot be scored");
  train::Validated result;
  result.loss = sums.value(config().segmentation);
  for (size_t k = 1; k < counts.size(); ++k) {
    const double d = dice(counts[k], empty_);
    result.sums.insert(result.sums.end(),
                       {static_cast<double>(counts[k].both), static_cast<double>(counts[k].truth),
                        static_cast<double>(counts[k].predicted), std::isnan(d) ? 0 : d});
    result.counts.insert(result.counts.end(), {1, 1, 1, std::isnan(d) ? 0.0 : 1.0});
  }
  return result;
}

double SegmentationTask::mean_dice(const MetricSums& sums) const {
  std::vector<double> of_classes;
  for (int64_t k = 1; k < n_classes(); ++k) of_classes.push_back(sums.mean(of_class("dice_", k)));
  return mean_of_numbers(of_classes);
}

std::vector<train::NamedScore> SegmentationTask::scores(const MetricSums& sums) const {
  std::vector<train::NamedScore> each;
  std::vector<double> pooled;
  const bool told = n_classes() > 2 && n_classes() <= kClassesInLine;
  for (int64_t k = 1; k < n_classes(); ++k) {
    const std::string& name = config().volumes.classes.at(static_cast<size_t>(k));
    const auto sum = [&](const char* of) {
      return static_cast<int64_t>(sums.at(of_class(of, k)).sum);
    };
    each.push_back(
        {of_class("dice_", k), "Dice " + name, "", sums.mean(of_class("dice_", k)), told});
    pooled.push_back(dice(
        {.both = sum("both_"), .truth = sum("truth_"), .predicted = sum("predicted_")}, empty_));
    each.push_back({of_class("dice_pooled_", k), "pooled Dice " + name, "", pooled.back(), false});
  }
  std::vector<train::NamedScore> scores{
      {"dice", "Dice", "", mean_dice(sums)},
      {"dice_pooled", "pooled Dice", "", mean_of_numbers(pooled)}};
  scores.insert(scores.end(), each.begin(), each.end());
  return scores;
}

double SegmentationTask::judge(const MetricSums& sums) const {
  return config().segmentation.best == "dice" ? 1 - mean_dice(sums) : Task::judge(sums);
}

std::string SegmentationTask::judged_by() const {
  return config().segmentation.best == "dice" ? "mean Dice" : Task::judged_by();
}

std::string SegmentationTask::judgement(double value) const {
  if (config().segmentation.best != "dice") return Task::judgement(value);
  return "mean Dice " + (std::isnan(value) ? "-" : apps::brief(1 - value));
}

train::Picture SegmentationTask::picture(const train::ScoredCase& scored, const std::string& word,
                                         Device device) {
  data::Sample sample =
      data::read_sample(*validation(), scored.index, data::WindowChoice::centred());
  const data::VolumeCase& found = cases_->all().at(sample.index);
  const Shape cells = sample.region.shape();
  Tensor prediction = Tensor::empty(cells, DType::u8);
  predict(data::collate({sample}).input, device, [&](int64_t first, Tensor& logits) {
    prediction.rows(first, first + logits.size(0))
        .copy_from(largest_class(logits, "case " + found.name));
  });
  const data::VolumeInfo info = data::open_volume(found.image)->info();
  data::ClassFigure figure{.title = "Case " + found.name,
                           .subtitle = "the planes with most labelled cells, through " +
                                       detail::join(found.box.count) + " cells",
                           .classes = config().volumes.classes,
                           .slices = data::telling_slices({.image = sample.input,
                                                           .truth = sample.target.reshape(cells),
                                                           .prediction = prediction,
                                                           .counts = sample.region,
                                                           .spacing = info.spacing})};
  return {.name = word,
          .title = "Case " + scored.name + ", the " + word + " of the validation",
          .draw = [figure = std::move(figure)](const std::string& path) {
            data::draw_classes(path, figure);
          }};
}

std::vector<train::Picture> SegmentationTask::pictures(const std::vector<train::ScoredCase>& cases,
                                                       Device device) {
  const size_t n = cases.size();
  std::vector<train::Picture> pictures{picture(cases[0], "hardest", device)};
  if (n > 2) pictures.push_back(picture(cases[n / 2], "middle", device));
  if (n > 1) pictures.push_back(picture(cases[n - 1], "easiest", device));
  return pictures;
}

void SegmentationTask::state(StateVisitor& visitor) {
  cases_->state(visitor);
  int64_t channels = model_->in_channels();
  visitor.value("model_input_channels", channels);
}

void SegmentationTask::refuse_change(const std::string& line) const {
  for (const char* key :
       {"task:", "segmentation.", "volumes.classes", "volumes.label_map", "volumes.normalis",
        "volumes.percentile", "volumes.fixed", "volumes.padding"})
    if (line.starts_with(key))
      throw UsageError("the checkpoint's losses and scores would not compare with this run's (" +
                       line +
                       "): keep the settings of the run, or start a new one in another output.dir");
  if (line.starts_with("model."))
    throw UsageError("the checkpoint holds another network (" + line +
                     "): keep the settings of the run, or start a new one in another output.dir");
}

std::string SegmentationTask::why_not_captured() const {
  return config().model.dropout > 0 ? "since dropout draws other numbers each time" : "";
}

int64_t SegmentationTask::smallest_extent() const { return smallest_sample(*model_); }

train::Task::CacheMemory SegmentationTask::cache_memory() const {
  const data::VolumeCache* cache = cases_->all().cache();
  if (cache == nullptr) return {};
  const data::VolumeCache::Memory memory = cache->memory();
  return {memory.of_rank, memory.of_host, "volumes.cache"};
}

std::vector<std::string> SegmentationTask::ways_to_less_memory() const {
  std::vector<std::string> ways;
  if (!config().model.recompute)
    ways.emplace_back("model.recompute=true (blocks run twice: about a third more time)");
  ways.emplace_back("a smaller volumes.patch: memory goes by its cells");
  ways.push_back(detail::join("a smaller model.base than ", config().model.base,
                              ": activations go by it, weights by its square"));
  return ways;
}

std::vector<std::string> SegmentationTask::describe() const {
  const SegmentationConfig& s = config().segmentation;
  std::vector<std::string> lines = task_lines(config());
  for (std::string& line : cases_->describe()) lines.push_back(std::move(line));
  if (const data::VolumeCache* cache = cases_->all().cache())
    lines.push_back("volumes.cache: " + cache->describe());
  lines.push_back(detail::join("loss: ", s.dice_weight, " * (1 - soft Dice",
                               s.include_background ? "" : " without background", ") + ",
                               s.cross_entropy_weight, " * cross-entropy; best.h5 by ",
                               s.best == "dice" ? "mean Dice" : "loss",
                               "; a class that a case lacks in truth and prediction: ",
                               s.empty_class == "skip" ? "not counted" : "Dice " + s.empty_class));
  return lines;
}

std::vector<std::string> SegmentationTask::warnings(int n_ranks) const {
  std::vector<std::string> warnings = network_warnings(config(), n_ranks);
  if (cases_->validation().size() == 0)
    warnings.emplace_back(
        "no case validates: nothing is scored, and best.h5 is the last state (split.validation, or "
        "the column `part` of the list)");
  if (std::string padding = cases_->padding_warning(); !padding.empty())
    warnings.push_back(std::move(padding));
  if (std::string reading = cases_->reading_warning(); !reading.empty())
    warnings.push_back(std::move(reading));
  return warnings;
}

}  // namespace bora::unet3d
