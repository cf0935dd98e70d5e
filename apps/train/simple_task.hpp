// SPDX-License-Identifier: Apache-2.0
// make_task(): a Task of a network, data sets and a loss, for what needs no more.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/train/task.hpp"

namespace bora::train {

/// What one case adds to a score.  Over all cases the score is the sum of `sum` by that of `count`.
struct Ratio {
  double sum = 0;
  double count = 1;
};

/// A figure of each validation.
struct Score {
  std::string name;  ///< in the log and in metrics.jsonl
  std::string unit;  ///< empty: a pure number
  /// Of the prediction for one case, f32 on the CPU, and the case.
  std::function<Ratio(const Tensor& prediction, const data::Batch& batch)> measure;
};

/// In the place of a validation set: there is none.
struct NoData {};

/// What a SimpleTask is made of; make_task() puts it together.
struct TaskParts {
  std::unique_ptr<nn::Module> model;
  std::function<Tensor(const Tensor& input)> forward;
  std::unique_ptr<const data::Dataset> training, validation;  ///< validation: nullptr for none
  std::function<Tensor(const Tensor& prediction, const data::Batch& batch)> loss;
  std::vector<Score> scores;
};

namespace impl {
Loss simple_loss(const TaskParts& parts, const Tensor& prediction, const data::Batch& batch);
Validated simple_validate(const TaskParts& parts, const data::Batch& batch, Device device);
}  // namespace impl

template <std::derived_from<RunConfig> C>
class SimpleTask final : public ConfiguredTask<C> {
 public:
  SimpleTask(C config, TaskParts parts)
      : ConfiguredTask<C>(std::move(config)), parts_(std::move(parts)) {}

  nn::Module& model() override { return *parts_.model; }
  const data::Dataset& training() const override { return *parts_.training; }
  const data::Dataset* validation() const override { return parts_.validation.get(); }
  Loss loss(const data::Batch& batch) override {
    return impl::simple_loss(parts_, parts_.forward(batch.input), batch);
  }
  std::vector<std::string> score_names() const override {
    std::vector<std::string> names;
    for (const Score& score : parts_.scores) names.push_back(score.name);
    return names;
  }
  Validated validate(const data::Batch& batch, Device device) override {
    return impl::simple_validate(parts_, batch, device);
  }
  std::vector<NamedScore> scores(const MetricSums& sums) const override {
    std::vector<NamedScore> figures;
    for (const Score& s : parts_.scores)
      figures.push_back({s.name, s.name, s.unit, sums.mean(s.name)});
    return figures;
  }

 private:
  TaskParts parts_;
};

/// A task of a network with `Tensor forward(const Tensor&)`, two data sets and a loss.
///   loss(prediction, batch)  both on the network's device, prediction f32: the loss of shape (), a
///                            mean over the batch's samples.  A batch of none never gets here.
///   validation               may be NoData{}: then the last state counts as the best
///   scores                   figures of each validation beside the loss
/// The network's and the loss's work must be the same whatever rank calls them: all that is random
/// comes from nn::dropout or from the data set's own keys.
template <std::derived_from<RunConfig> C, std::derived_from<nn::Module> Net,
          std::derived_from<data::Dataset> Training, class Validation>
std::unique_ptr<Task> make_task(
    const C& config, std::unique_ptr<Net> net, Training training, Validation validation,
    std::function<Tensor(const Tensor& prediction, const data::Batch& batch)> loss,
    std::vector<Score> scores = {}) {
  BORA_CHECK(net && loss, "make_task: wants a network and a loss");
  TaskParts parts;
  parts.forward = [raw = net.get()](const Tensor& input) { return raw->forward(input); };
  parts.model = std::move(net);
  parts.training = std::make_unique<Training>(std::move(training));
  if constexpr (std::derived_from<Validation, data::Dataset>)
    parts.validation = std::make_unique<Validation>(std::move(validation));
  else
    static_assert(std::same_as<Validation, NoData>, "wanted a Dataset or NoData");
  parts.loss = std::move(loss);
  parts.scores = std::move(scores);
  return std::make_unique<SimpleTask<C>>(config, std::move(parts));
}

}  // namespace bora::train
