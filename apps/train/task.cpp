// SPDX-License-Identifier: Apache-2.0
#include "apps/train/task.hpp"

namespace bora::train {

Validated Task::validate(const data::Batch& batch, Device device) {
  data::Batch here = batch;
  for (Tensor* t : {&here.input, &here.target, &here.region})
    if (t->defined()) *t = t->to(device);
  return {loss(here), {}, {}};
}

std::vector<NamedScore> Task::scores(const MetricSums& sums) const {
  std::vector<NamedScore> scores;
  for (const std::string& name : score_names()) scores.push_back({name, name, "", sums.mean(name)});
  return scores;
}

}  // namespace bora::train
