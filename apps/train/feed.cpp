// SPDX-License-Identifier: Apache-2.0
#include "apps/train/feed.hpp"

#include <algorithm>
#include <utility>

#include "apps/common/threads.hpp"

namespace bora::train {
namespace {

/// A batch of no samples, shaped as this one's would be.
data::Batch no_samples(const data::Sample& like) {
  data::Batch batch = data::collate({like});
  for (Tensor* t : {&batch.input, &batch.target, &batch.region, &batch.valid, &batch.weight})
    if (t->defined()) *t = t->rows(0, 0);
  batch.weights.clear();
  batch.names.clear();
  return batch;
}

/// Without a sample of its own a rank takes part with a batch of none: it makes the calls of the
/// others (statistics, reductions), and adds nothing to any of them.
MicroStep join(const data::Slot& first, const std::vector<data::Sample>& samples,
               const data::Sample& like) {
  return {first, static_cast<int64_t>(samples.size()),
          samples.empty() ? no_samples(like) : data::collate(samples)};
}

}  // namespace

data::LoaderOptions loader_options(const LoaderConfig& config) {
  constexpr int kThreads = 2;  // as many as keep a step fed in the examples
  return data::checked({.n_threads = config.threads >= 0
                                         ? config.threads
                                         : std::min(kThreads, apps::cores_in_mask()),
                        .queue_depth = config.queue,
                        .timeout_s = config.timeout_s});
}

BatchFeed::BatchFeed(const data::Dataset& training, const apps::WindowPlan& plan, uint64_t seed,
                     const LoaderConfig& loader, Device device)
    : training_(training),
      plan_(plan),
      seed_(seed),
      device_(device),
      loader_(
          loader_options(loader), [this](const data::Slot& slot) { return read(slot); },
          data::sample_namer(training), data::sample_locator(training)) {
  if (device != cpu()) uploader_.emplace(device);
}

data::Sample BatchFeed::read(const data::Slot& slot) const {
  const RngKey key{
      seed_, rng_stream("augment", static_cast<uint64_t>(slot.epoch),
                        static_cast<uint64_t>(slot.index), static_cast<uint64_t>(slot.repeat))};
  return data::read_sample(training_, slot.index, data::WindowChoice::random(key));
}

void BatchFeed::start(data::EpochPosition from) {
  if (started_ == from) return;
  started_ = from;
  ahead_.reset();
  if (uploader_) uploader_->drop();
  sizes_.clear();
  const int64_t n = plan_.sampler().options().n_samples;
  for (data::EpochPosition at = from; at.position < n; at.position += plan_.samples_at(at)) {
    const std::vector<int64_t> steps = plan_.micro_steps(plan_.samples_at(at));
    sizes_.insert(sizes_.end(), steps.begin(), steps.end());
  }
  loader_.start(plan_.slots(from));
}

MicroStep BatchFeed::load_next() {
  BORA_CHECK(!sizes_.empty(), "BatchFeed: the epoch has no more micro-steps");
  started_.reset();
  const int64_t size = std::exchange(sizes_.front(), 0);
  sizes_.pop_front();
  const auto begin = static_cast<size_t>(loader_.n_delivered());
  const std::vector<data::Slot>& slots = loader_.slots();
  std::vector<data::Sample> all;
  while (static_cast<int64_t>(all.size()) < size) {
    std::optional<data::Sample> next = loader_.next();
    BORA_CHECK(next, "the loader ended ", size - static_cast<int64_t>(all.size()),
               " samples early");
    all.push_back(std::move(*next));
  }
  std::vector<data::Sample> samples;
  for (size_t i = 0; i < all.size(); ++i)
    if (!slots[begin + i].padding) samples.push_back(all[i]);
  return join(slots[begin], samples, all.front());
}

void BatchFeed::prefetch() {
  if (!uploader_ || ahead_ || sizes_.empty()) return;
  ahead_ = load_next();
  std::vector<Tensor> parts{ahead_->batch.input, ahead_->batch.target, ahead_->batch.region};
  if (ahead_->batch.weight.defined()) parts.push_back(ahead_->batch.weight);
  uploader_->send(parts);
}

MicroStep BatchFeed::next() {
  if (!uploader_) return load_next();
  prefetch();
  BORA_CHECK(ahead_, "BatchFeed: the epoch has no more micro-steps");
  MicroStep step = std::move(*ahead_);
  ahead_.reset();
  const std::vector<Tensor> here = uploader_->take();
  step.batch.input = here[0];
  step.batch.target = here[1];
  step.batch.region = here[2];
  if (step.batch.weight.defined()) step.batch.weight = here.at(3);
  step.batch.valid = Tensor();
  return step;
}

MicroStep BatchFeed::read_micro_step(const std::vector<data::Slot>& slots, size_t begin,
                                     int64_t n) const {
  std::vector<data::Sample> samples;
  std::optional<data::Sample> first;
  for (size_t i = begin; i < begin + static_cast<size_t>(n); ++i) {
    data::Sample sample = read(slots.at(i));
    if (!slots[i].padding) samples.push_back(sample);
    if (!first) first = std::move(sample);
  }
  MicroStep step = join(slots.at(begin), samples, *first);
  data::Batch& b = step.batch;
  for (Tensor* t : {&b.input, &b.target, &b.region, &b.weight})
    if (t->defined()) *t = t->to(device_);
  return step;
}

}  // namespace bora::train
