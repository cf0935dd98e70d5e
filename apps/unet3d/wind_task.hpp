// SPDX-License-Identifier: Apache-2.0
// WindTask: a U-Net that learns wind speed from building masks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/train/task.hpp"
#include "apps/unet3d/cases.hpp"
#include "apps/unet3d/config.hpp"
#include "apps/unet3d/model.hpp"

namespace bora::unet3d {

/// Scores are errors in m/s over open cells.
class WindTask final : public train::ConfiguredTask<Config> {
 public:
  /// Opens the cases, together with the other ranks, and builds the network.  Throws UsageError or
  /// Error for settings or cases with which it cannot be.
  WindTask(const Config& config, Collective& ranks);

  UNet3d& model() override { return *model_; }
  const data::Dataset& training() const override { return cases_->training(); }
  const data::Dataset* validation() const override { return &cases_->validation(); }
  std::vector<std::string> loss_names() const override;
  std::vector<std::string> validation_loss_names() const override;
  train::Loss loss(const data::Batch& batch) override;
  std::vector<std::string> score_names() const override;
  train::Validated validate(const data::Batch& batch, Device device) override;
  std::vector<train::NamedScore> scores(const MetricSums& sums) const override;
  /// Slices of the hardest, the middle and the easiest case: truth, prediction, error.
  std::vector<train::Picture> pictures(const std::vector<train::ScoredCase>& cases,
                                       Device device) override;
  void set_collective(Collective* ranks) override { model_->set_collective(ranks); }
  void prepare(Collective& ranks) override { cases_->fit(ranks); }
  void state(StateVisitor& visitor) override;
  std::string why_not_captured() const override;
  int64_t smallest_extent() const override;
  Dims3 largest_extents() const override;
  CacheMemory cache_memory() const override;
  std::vector<std::string> ways_to_less_memory() const override;
  std::vector<std::string> describe() const override;
  std::vector<std::string> warnings(int n_ranks) const override;

  Cases& cases() { return *cases_; }

 protected:
  void refuse_change(const std::string& line) const override;

 private:
  std::unique_ptr<Cases> cases_;
  std::unique_ptr<UNet3d> model_;
};

}  // namespace bora::unet3d
