// SPDX-License-Identifier: Apache-2.0
#include "apps/train/task.hpp"

#include "apps/common/text.hpp"
#include "nn/layers/norm.hpp"

namespace bora::train {
namespace {

/// Gives the ranks to each synchronised batch norm.
class RanksGiver final : public nn::Visitor {
 public:
  explicit RanksGiver(Collective* ranks) : ranks_(ranks) {}
  void parameter(std::string_view, nn::Parameter&) override {}
  void give(nn::Module& module) {
    enter(module);
    module.visit(*this);
  }

 private:
  void enter(nn::Module& module) override {
    auto* norm = dynamic_cast<nn::Norm*>(&module);
    if (norm != nullptr && norm->kind() == nn::NormKind::sync_batch) norm->set_collective(ranks_);
  }
  Collective* ranks_;
};

}  // namespace

void Task::set_collective(Collective* ranks) { RanksGiver(ranks).give(model()); }

Validated Task::validate(const data::Batch& batch, Device device) {
  data::Batch here = batch;
  for (Tensor* t : {&here.input, &here.target, &here.region, &here.weight})
    if (t->defined()) *t = t->to(device);
  return {loss(here), {}, {}};
}

std::string Task::judgement(double value) const { return judged_by() + " " + apps::brief(value); }

std::vector<NamedScore> Task::scores(const MetricSums& sums) const {
  std::vector<NamedScore> scores;
  for (const std::string& name : score_names()) scores.push_back({name, name, "", sums.mean(name)});
  return scores;
}

std::vector<double> sampling_weights(const Task& task, const std::string& sampling) {
  if (sampling == "shuffle") return {};
  const data::Dataset& training = task.training();
  std::vector<double> weights = task.sample_weights();
  BORA_CHECK(weights.empty() || static_cast<int64_t>(weights.size()) == training.size(),
             "train.sampling: ", training.size(), " training samples, but ", weights.size(),
             " weights");
  if (sampling == "weighted") {
    if (weights.empty())
      throw UsageError(
          "train.sampling=weighted, but the samples have no weights: wanted a manifest with a "
          "column sample_weight, or another sampling");
    return weights;
  }
  BORA_CHECK(sampling == "geometry", "train.sampling is '", sampling,
             "', wanted shuffle, weighted or geometry");
  std::vector<std::string> groups;
  for (int64_t i = 0; i < training.size(); ++i) groups.push_back(training.group(i));
  return data::geometry_weights(groups, weights);
}

}  // namespace bora::train
