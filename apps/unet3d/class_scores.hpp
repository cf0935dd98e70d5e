// SPDX-License-Identifier: Apache-2.0
// Scores of a segmentation: counts of cells for each class, and the formulas over them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor.hpp"

namespace bora::unet3d {

/// Cells of one class, in one case or in several.
struct ClassCounts {
  int64_t both = 0;       ///< have the class in truth and prediction
  int64_t truth = 0;      ///< have it in the truth
  int64_t predicted = 0;  ///< have it in the prediction

  void add(const ClassCounts& other);
  /// Neither has any.
  bool is_empty() const { return truth == 0 && predicted == 0; }
  friend bool operator==(const ClassCounts&, const ClassCounts&) = default;
};

/// The policy for a class that neither truth nor prediction has: its overlap is 0 / 0.
enum class EmptyClass {
  skip,  ///< NaN, which no mean counts
  one,   ///< 1: the prediction is right
  zero,  ///< 0: the most careful figure
};
/// "skip", "one" or "zero"; throws UsageError otherwise.
EmptyClass empty_class_from(const std::string& name);

/// 2 both / (truth + predicted).  Where only one of both has the class it is 0.
double dice(const ClassCounts& counts, EmptyClass empty);
/// both / (truth + predicted - both), the Jaccard index; the same policy.
double iou(const ClassCounts& counts, EmptyClass empty);
/// both / predicted: the share of the prediction that is true; NaN without prediction.
double precision(const ClassCounts& counts);
/// both / truth: the share of the truth that is found; NaN without truth.
double recall(const ClassCounts& counts);

/// The mean of those that are no NaN; NaN if none is.
double mean_of_numbers(const std::vector<double>& values);

/// Adds the cells of truth and prediction, u8 class numbers below counts.size(), where region (u8,
/// or undefined: everywhere) is not 0.  Tensors on the CPU with as many elements.  Throws Error for
/// a number that is no class, naming `what` ("the truth of case a").
void count_classes(const Tensor& truth, const Tensor& prediction, const Tensor& region,
                   const std::string& what, std::vector<ClassCounts>& counts);

/// The class of the largest logit in each cell, the first of equal ones: (..., K) f32 -> (...) u8.
/// On the CPU; K at most 256.  Throws Error naming `what` and the cell for a NaN.
Tensor largest_class(const Tensor& logits, const std::string& what);

}  // namespace bora::unet3d
