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

}  // namespace bora::train
