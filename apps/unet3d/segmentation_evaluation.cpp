// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/segmentation_evaluation.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "apps/unet3d/pulse.hpp"
#include "core/precision.hpp"
#include "data/volume_file.hpp"

namespace bora::unet3d {
namespace {

/// Of one cell, in mm^3; NaN where the file does not give its sizes.
double cell_volume(const data::VolumeInfo& info) {
  double volume = 1;
  for (const double s : info.spacing) volume *= s;
  const std::string& unit = info.spacing_unit;
  // NIfTI without a unit: its affine is in mm by definition.
  const bool in_mm = unit == "mm" || (unit.empty() && info.affine);
  const double mm = in_mm ? 1 : unit == "m" ? 1e3 : unit == "um" ? 1e-3 : 0;
  return volume > 0 && mm > 0 ? volume * mm * mm * mm : std::numeric_limits<double>::quiet_NaN();
}

/// Truth, and the network's classes for the same cells, of one case.
struct ClassifiedVolume {
  data::Sample sample;  ///< the whole box
  Tensor prediction;    ///< (X, Y, Z) u8
  ClassPlan plan;
  double seconds = 0;
};
ClassifiedVolume classify(TrainedModel& trained, const SegmentationCases& cases, int64_t index,
                          const FieldConfig& config, const std::function<void()>& after_window) {
  ClassifiedVolume out;
  out.sample = cases.all().read(index, data::WindowChoice::centred());
  const Shape cells = out.sample.region.shape();
  out.plan = plan_classes(config, trained, {cells[0], cells[1], cells[2]});
  out.prediction = Tensor::empty(cells, DType::u8);
  const auto start = std::chrono::steady_clock::now();
  predict_classes(
      trained, {.cases = &cases.all(),
                .index = index,
                .plan = out.plan,
                .image = out.sample.input,
                .compute = precision_type(config.precision),
                .after_window = after_window,
                .take = [&](int64_t first, Tensor& logits) {
                  const Tensor classes = largest_class(logits, "case " + cases.all().name(index));
                  std::memcpy(out.prediction.data<uint8_t>() + first * cells[1] * cells[2],
                              classes.raw(), static_cast<size_t>(classes.bytes()));
                }});
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

/// A row a case: its counts, then the bits of two doubles.  The ranks fill their own rows and leave
/// zeros elsewhere, so that joining them is exact.
class Table {
 public:
  Table(int64_t n_cases, int64_t n_classes)
      : n_classes_(n_classes), rows_(Tensor::zeros({n_cases, 3 * n_classes + 2}, DType::i64)) {}

  void set(int64_t i, const ScoredVolume& scored) {
    int64_t* row = rows_.data<int64_t>() + i * rows_.size(1);
    for (const ClassCounts& c : scored.counts)
      *row++ = c.both, *row++ = c.truth, *row++ = c.predicted;
    const double numbers[] = {scored.cell_mm3, scored.seconds};
    std::memcpy(row, numbers, sizeof numbers);
  }
  ScoredVolume get(int64_t i) const {
    const int64_t* row = rows_.data<int64_t>() + i * rows_.size(1);
    ScoredVolume scored;
    for (int64_t k = 0; k < n_classes_; ++k, row += 3)
      scored.counts.push_back({row[0], row[1], row[2]});
    double numbers[2];
    std::memcpy(numbers, row, sizeof numbers);
    scored.cell_mm3 = numbers[0];
    scored.seconds = numbers[1];
    return scored;
  }
  void join(Collective& ranks) { ranks.all_reduce(rows_, ReduceOp::sum, "evaluation counts"); }

 private:
  int64_t n_classes_;
  Tensor rows_;
};

}  // namespace

ClassCounts SegmentationScores::pooled(size_t k) const {
  ClassCounts sum;
  for (const ScoredVolume& c : cases) sum.add(c.counts.at(k));
  return sum;
}

double SegmentationScores::mean(size_t k, double (*score)(const ClassCounts&, EmptyClass)) const {
  std::vector<double> values;
  for (const ScoredVolume& c : cases) values.push_back(score(c.counts.at(k), empty));
  return mean_of_numbers(values);
}

double SegmentationScores::foreground_mean(double (*score)(const ClassCounts&, EmptyClass)) const {
  std::vector<double> values;
  for (size_t k = 1; k < classes.size(); ++k) values.push_back(mean(k, score));
  return mean_of_numbers(values);
}

double SegmentationScores::foreground_pooled(double (*score)(const ClassCounts&,
                                                             EmptyClass)) const {
  std::vector<double> values;
  for (size_t k = 1; k < classes.size(); ++k) values.push_back(score(pooled(k), empty));
  return mean_of_numbers(values);
}

SegmentationScores score_volumes(TrainedModel& trained, const SegmentationCases& cases,
                                 const std::vector<int64_t>& indices, const FieldConfig& config,
                                 Collective& ranks) {
  const auto n = static_cast<int64_t>(indices.size());
  BORA_CHECK(n > 0, "evaluate: there is no case to evaluate");
  SegmentationScores out;
  out.classes = trained.config.volumes.classes;
  out.empty = empty_class_from(trained.config.segmentation.empty_class);
  Table table(n, static_cast<int64_t>(out.classes.size()));
  work_apart(ranks, "evaluation", [&](Pulse& pulse) {
    for (int64_t i = ranks.rank(); i < n; i += ranks.size()) {
      const int64_t index = indices[static_cast<size_t>(i)];
      const ClassifiedVolume found = classify(trained, cases, index, config, [&] { pulse.beat(); });
      ScoredVolume scored;
      scored.counts.resize(out.classes.size());
      count_classes(found.sample.target.reshape(found.prediction.shape()), found.prediction,
                    found.sample.region, "case " + cases.all().name(index), scored.counts);
      scored.cell_mm3 = cell_volume(data::open_volume(cases.all().at(index).image)->info());
      scored.seconds = found.seconds;
      table.set(i, scored);
    }
  });
  table.join(ranks);
  for (int64_t i = 0; i < n; ++i) {
    out.cases.push_back(table.get(i));
    out.cases.back().name = cases.all().name(indices[static_cast<size_t>(i)]);
  }
  out.windows = plan_classes(config, trained, cases.all().at(indices[0]).box.count).text;
  return out;
}

data::ClassFigure class_figure(TrainedModel& trained, const SegmentationCases& cases, int64_t index,
                               const FieldConfig& config,
                               const std::function<void()>& after_window) {
  const ClassifiedVolume found = classify(trained, cases, index, config, after_window);
  const data::VolumeCase& files = cases.all().at(index);
  return {.title = "Case " + files.name,
          .subtitle = "the planes with most labelled cells",
          .classes = trained.config.volumes.classes,
          .slices =
              data::telling_slices({.image = found.sample.input,
                                    .truth = found.sample.target.reshape(found.prediction.shape()),
                                    .prediction = found.prediction,
                                    .counts = found.sample.region,
                                    .spacing = data::open_volume(files.image)->info().spacing})};
}

std::vector<std::pair<std::string, size_t>> telling_volumes(const SegmentationScores& scores) {
  std::vector<std::pair<double, size_t>> order;  // of the cases that have a number
  for (size_t i = 0; i < scores.cases.size(); ++i) {
    std::vector<double> of_classes;
    for (size_t k = 1; k < scores.classes.size(); ++k)
      of_classes.push_back(dice(scores.cases[i].counts.at(k), scores.empty));
    const double mean = mean_of_numbers(of_classes);
    if (!std::isnan(mean)) order.emplace_back(-mean, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::pair<std::string, size_t>> out;
  if (!order.empty()) out.emplace_back("best", order.front().second);
  if (order.size() > 2) out.emplace_back("median", order[order.size() / 2].second);
  if (order.size() > 1) out.emplace_back("worst", order.back().second);
  return out;
}

}  // namespace bora::unet3d
