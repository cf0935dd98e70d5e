// SPDX-License-Identifier: Apache-2.0
// SegmentationTask: a U-Net that learns the class of each cell of an image.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/train/task.hpp"
#include "apps/unet3d/class_scores.hpp"
#include "apps/unet3d/config.hpp"
#include "apps/unet3d/model.hpp"
#include "apps/unet3d/segmentation_cases.hpp"

namespace bora::unet3d {

/// Scores are the Dice of each class but the background: per case, averaged over the cases that
/// have a number (segmentation.empty_class), and pooled, of all cells of all cases together.
/// Validation cases go through the network whole, by sliding windows of volumes.patch.
class SegmentationTask final : public train::ConfiguredTask<Config> {
 public:
  /// Opens the cases, together with the other ranks, and builds the network.  Throws UsageError or
  /// Error for settings or cases with which it cannot be.
  SegmentationTask(const Config& config, Collective& ranks);

  UNet3d& model() override { return *model_; }
  const data::Dataset& training() const override { return cases_->training(); }
  const data::Dataset* validation() const override { return &cases_->validation(); }
  std::vector<double> sample_weights() const override { return cases_->training_weights(); }
  std::vector<std::string> loss_names() const override;
  train::Loss loss(const data::Batch& batch) override;
  std::vector<std::string> score_names() const override;
  train::Validated validate(const data::Batch& batch, Device device) override;
  std::vector<train::NamedScore> scores(const MetricSums& sums) const override;
  /// 1 - mean Dice, or the loss (segmentation.best).
  double judge(const MetricSums& sums) const override;
  std::string judged_by() const override;
  std::string judgement(double value) const override;
  /// Slices of the hardest, the middle and the easiest case: image, truth, prediction, differences.
  std::vector<train::Picture> pictures(const std::vector<train::ScoredCase>& cases,
                                       Device device) override;
  void set_collective(Collective* ranks) override { model_->set_collective(ranks); }
  void prepare(Collective& ranks) override { cases_->fit(ranks); }
  void state(StateVisitor& visitor) override;
  std::string why_not_captured() const override;
  int64_t smallest_extent() const override;
  Dims3 largest_extents() const override { return cases_->largest_patch(); }
  CacheMemory cache_memory() const override;
  std::vector<std::string> ways_to_less_memory() const override;
  std::vector<std::string> describe() const override;
  std::vector<std::string> warnings(int n_ranks) const override;

  SegmentationCases& cases() { return *cases_; }

 protected:
  void refuse_change(const std::string& line) const override;

 private:
  int64_t n_classes() const { return cases_->all().n_classes(); }
  double mean_dice(const MetricSums& sums) const;
  /// What comes out of the network for one whole case, slab by slab: planes [first, first + n),
  /// (n, Y, Z, K) f32.  input (1, X, Y, Z, C) on the host.
  void predict(const Tensor& input, Device device,
               const std::function<void(int64_t first, Tensor& logits)>& take);
  train::Picture picture(const train::ScoredCase& scored, const std::string& word, Device device);

  std::unique_ptr<SegmentationCases> cases_;
  std::unique_ptr<UNet3d> model_;
  EmptyClass empty_;
};

}  // namespace bora::unet3d
