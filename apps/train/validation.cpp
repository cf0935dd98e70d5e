// SPDX-License-Identifier: Apache-2.0
#include "apps/train/validation.hpp"

#include <cmath>
#include <exception>

#include "apps/train/feed.hpp"
#include "core/finite_watch.hpp"
#include "core/precision.hpp"
#include "core/tape.hpp"

namespace bora::train {
namespace {

std::vector<std::string> figures_of(const Task& task) {
  std::vector<std::string> names = task.validation_loss_names();
  const std::vector<std::string> scores = task.score_names();
  names.insert(names.end(), scores.begin(), scores.end());
  return names;
}

}  // namespace

Validation::Validation(Task& task, const data::Dataset& cases, const LoaderConfig& loader,
                       Device device, DType precision)
    : task_(task),
      cases_(cases),
      device_(device),
      precision_(precision),
      loader_(
          loader_options(loader),
          [this](const data::Slot& slot) {
            return data::read_sample(cases_, slot.index, data::WindowChoice::centred());
          },
          data::sample_namer(cases), data::sample_locator(cases)) {}

void Validation::read_ahead(const Collective& ranks) {
  if (is_reading_) return;
  const data::DistributedSampler sampler(data::SamplerOptions{.n_samples = cases_.size(),
                                                              .n_ranks = ranks.size(),
                                                              .rank = ranks.rank(),
                                                              .shuffle = false,
                                                              .tail = data::Tail::uneven});
  loader_.start(sampler.slots({}));
  is_reading_ = true;
}

std::optional<MetricSums> Validation::run(Collective& ranks, apps::StopWatcher& stop,
                                          const Hooks& hooks,
                                          std::vector<apps::OrderedSums::Part>* parts) {
  task_.model().set_training(false);
  const NoGrad no_grad;
  const PrecisionScope precision(precision_);
  apps::OrderedSums sums(figures_of(task_));
  read_ahead(ranks);
  is_reading_ = false;
  const auto mine = static_cast<int64_t>(loader_.slots().size());
  // All ranks make as many rounds, so that they can ask each other in any of them; a rank without a
  // case in the last one, or one that failed, has nothing to do in it.
  const int64_t rounds = (cases_.size() + ranks.size() - 1) / ranks.size();
  std::exception_ptr failure;
  bool left = false;
  stop.begin_phase();
  for (int64_t round = 0; round < rounds && !left; ++round) {
    left = stop.due_or(failure != nullptr || (hooks.leave && hooks.leave()));
    if (left || failure || round >= mine) continue;
    try {
      score_next(sums, hooks);
    } catch (...) {
      failure = std::current_exception();
    }
  }
  loader_.start({});  // what was read ahead for nothing
  stop.begin_phase();
  ranks.agree("validation", [&] {
    if (failure) std::rethrow_exception(failure);
  });
  if (left) return std::nullopt;
  return sums.reduce(ranks, "validation", parts);
}

void Validation::score_next(apps::OrderedSums& sums, const Hooks& hooks) {
  if (hooks.before) hooks.before(loader_.slots()[static_cast<size_t>(loader_.n_delivered())].index);
  std::optional<data::Sample> sample = loader_.next();
  BORA_CHECK(sample, "Validation: the loader ended early");
  // Its place among the cases; a Subset's samples keep the index of the whole.
  const int64_t place = loader_.slots()[static_cast<size_t>(loader_.n_delivered() - 1)].index;
  const data::Batch batch = data::collate({std::move(*sample)});
  const Validated result = task_.validate(batch, device_);
  std::vector<double> values, counts(result.loss.parts.size(), 1.0);
  for (size_t i = 0; i < result.loss.parts.size(); ++i) values.push_back(result.loss.value(i));
  values.insert(values.end(), result.sums.begin(), result.sums.end());
  counts.insert(counts.end(), result.counts.begin(), result.counts.end());
  require_finite(values, figures_of(task_), batch, hooks.advice);
  sums.add(place, values, counts);
}

void Validation::require_finite(const std::vector<double>& values,
                                const std::vector<std::string>& names, const data::Batch& batch,
                                const std::string& advice) {
  for (size_t i = 0; i < values.size() && i < names.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    const FiniteWatch watch;
    task_.validate(batch, device_);
    BORA_FAIL("validation case '", batch.names.at(0), "': its ", names[i], " is ", values[i],
              watch.first().empty() ? std::string()
                                    : "; in the forward pass the first was " + watch.first(),
              ". ", advice);
  }
}

}  // namespace bora::train
