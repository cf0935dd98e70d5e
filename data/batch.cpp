// SPDX-License-Identifier: Apache-2.0
#include "data/batch.hpp"

#include <algorithm>
#include <utility>

namespace bora::data {
namespace {

Shape with_batch_axis(int64_t n, const Shape& shape) {
  Shape out{n};
  for (int i = 0; i < shape.rank(); ++i) out = out.append(shape[i]);
  return out;
}

Tensor join(const std::vector<Sample>& samples, Tensor Sample::*part, const char* what) {
  const Tensor& first = samples.front().*part;
  const int64_t n = static_cast<int64_t>(samples.size());
  BORA_CHECK(first.defined(), "collate: sample ", samples.front().name, " has no ", what);
  if (n == 1) return first.reshape(with_batch_axis(1, first.shape()));
  Tensor out = Tensor::empty(with_batch_axis(n, first.shape()), first.dtype());
  for (int64_t i = 0; i < n; ++i) {
    const Sample& sample = samples[static_cast<size_t>(i)];
    const Tensor& mine = sample.*part;
    BORA_CHECK(mine.defined() && mine.shape() == first.shape() && mine.dtype() == first.dtype(),
               "collate: samples of a batch must be alike, but the ", what, " of ", sample.name,
               " is ", mine.shape(), " ", mine.dtype(), " and that of ", samples.front().name,
               " is ", first.shape(), " ", first.dtype(),
               "; set data.shape so that all are cut or padded to one shape");
    out.view(i * first.numel(), first.shape()).copy_from(mine);
  }
  return out;
}

/// Cells of a sample without weights weigh 1.
std::vector<Sample> with_weights(std::vector<Sample> samples) {
  for (Sample& sample : samples)
    if (!sample.weight.defined())
      sample.weight = Tensor::full(sample.region.shape(), 1, DType::f32);
  return samples;
}

}  // namespace

Batch collate(const std::vector<Sample>& samples, std::vector<double> weights) {
  BORA_CHECK(!samples.empty(), "collate: wants at least one sample");
  if (weights.empty()) weights.assign(samples.size(), 1.0);
  BORA_CHECK(weights.size() == samples.size(), "collate: ", samples.size(), " samples, but ",
             weights.size(), " weights");
  Batch batch;
  batch.input = join(samples, &Sample::input, "input");
  batch.target = join(samples, &Sample::target, "target");
  batch.region = join(samples, &Sample::region, "region");
  batch.valid = join(samples, &Sample::valid, "validity mask");
  if (std::any_of(samples.begin(), samples.end(),
                  [](const Sample& s) { return s.weight.defined(); }))
    batch.weight = join(with_weights(samples), &Sample::weight, "weights");
  batch.weights = std::move(weights);
  for (const Sample& sample : samples) {
    batch.names.push_back(sample.name);
    batch.indices.push_back(sample.index);
    batch.scalings.push_back(sample.scaling);
    batch.angles_deg.push_back(sample.angle_deg);
  }
  return batch;
}

Loader<Sample>::Read sample_reader(const Dataset& dataset, Reading reading, uint64_t seed) {
  return [&dataset, reading, seed](const Slot& slot) {
    if (reading == Reading::centred)
      return read_sample(dataset, slot.index, WindowChoice::centred());
    const RngKey key{
        seed, rng_stream("augment", static_cast<uint64_t>(slot.epoch),
                         static_cast<uint64_t>(slot.index), static_cast<uint64_t>(slot.repeat))};
    return read_sample(dataset, slot.index, WindowChoice::random(key));
  };
}

Loader<Sample>::Name sample_namer(const Dataset& dataset) {
  return [&dataset](int64_t index) { return dataset.name(index); };
}

Loader<Sample>::Name sample_locator(const Dataset& dataset) {
  return [&dataset](int64_t index) { return dataset.where(index); };
}

std::optional<Batch> next_batch(Loader<Sample>& loader, int64_t n) {
  BORA_CHECK(n >= 1, "next_batch: wants at least one sample, got n = ", n);
  std::vector<Sample> samples;
  std::vector<double> weights;
  while (static_cast<int64_t>(samples.size()) < n) {
    const auto at = static_cast<size_t>(loader.n_delivered());
    std::optional<Sample> sample = loader.next();
    if (!sample) break;
    weights.push_back(loader.slots()[at].padding ? 0.0 : 1.0);
    samples.push_back(std::move(*sample));
  }
  if (samples.empty()) return std::nullopt;
  return collate(samples, std::move(weights));
}

}  // namespace bora::data
