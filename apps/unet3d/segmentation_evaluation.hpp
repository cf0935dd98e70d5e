// SPDX-License-Identifier: Apache-2.0
// Evaluation of a segmentation: counts of each class, case by case, and the scores over them.
#pragma once

#include <string>
#include <vector>

#include "apps/unet3d/class_field.hpp"
#include "apps/unet3d/class_scores.hpp"
#include "apps/unet3d/segmentation_cases.hpp"
#include "core/collective.hpp"
#include "data/class_figure.hpp"
#include "data/jsonl.hpp"

namespace bora::unet3d {

/// One case.
struct ScoredVolume {
  std::string name;
  std::vector<ClassCounts> counts;  ///< of each class
  double cell_mm3 = 0;              ///< volume of a cell; NaN where the file gives no sizes
  double seconds = 0;               ///< wall time of the network, on its rank
};

struct SegmentationScores {
  std::vector<std::string> classes;
  EmptyClass empty = EmptyClass::skip;
  std::vector<ScoredVolume> cases;
  std::string windows;  ///< of the first case: ClassPlan::text

  /// Of class k over all cases: their cells together.
  ClassCounts pooled(size_t k) const;
  /// The mean over the cases that have a number; NaN where none has.
  double mean(size_t k, double (*score)(const ClassCounts&, EmptyClass)) const;
  /// The mean over classes 1, 2, ... that have a number, of mean() or of the pooled score.
  double foreground_mean(double (*score)(const ClassCounts&, EmptyClass)) const;
  double foreground_pooled(double (*score)(const ClassCounts&, EmptyClass)) const;
};

/// Scores the cases with these indices among cases.all(), shared among the ranks; all ranks get all
/// numbers, the same for any number of ranks: each case is counted on one rank.  Collective.
SegmentationScores score_volumes(TrainedModel& trained, const SegmentationCases& cases,
                                 const std::vector<int64_t>& indices, const FieldConfig& config,
                                 Collective& ranks);

/// One row for each case and class, then rows "pooled" (all cells of all cases together) and "mean"
/// (over cases) for each class, and for all but class 0 as the class "foreground" (the mean over
/// classes).  Columns: case, class, name, voxels (of the truth), voxels_predicted, dice, iou,
/// precision, recall, volume_mm3, volume_predicted_mm3.  NaN: not counted, or not known.
void write_class_scores(const std::string& path, const SegmentationScores& scores);
/// The same numbers as JSON, as write_scores_json has them.
void write_class_scores_json(const std::string& path, const data::JsonRecord& settings,
                             const SegmentationScores& scores);
/// A table of the means and the pooled scores for people; "-" for NaN.
std::string class_table(const SegmentationScores& scores);

/// Slices of one case: image, truth, prediction, differences.  `index` among cases.all().
data::ClassFigure class_figure(TrainedModel& trained, const SegmentationCases& cases, int64_t index,
                               const FieldConfig& config,
                               const std::function<void()>& after_window);
/// The cases of the largest, middle and smallest mean Dice: "best", "median", "worst", with their
/// place in scores.cases.
std::vector<std::pair<std::string, size_t>> telling_volumes(const SegmentationScores& scores);

}  // namespace bora::unet3d
