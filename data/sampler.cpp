// SPDX-License-Identifier: Apache-2.0
#include "data/sampler.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "core/fnv.hpp"
#include "core/rng.hpp"

namespace bora::data {
namespace {

void check_option(bool ok, const std::string& message) {
  if (!ok) throw UsageError("DistributedSampler: " + message);
}

/// FNV-1a over the bytes, the lowest of each number first.
uint64_t checksum(const std::vector<double>& weights) {
  uint64_t sum = kFnvOffset;
  for (const double w : weights) {
    const auto bits = std::bit_cast<uint64_t>(w);
    for (int byte = 0; byte < 8; ++byte) sum = fnv_step(sum, bits >> (8 * byte) & 0xff);
  }
  return sum;
}

}  // namespace

std::vector<int64_t> epoch_order(int64_t n, uint64_t seed, int64_t epoch, bool shuffle) {
  BORA_CHECK(n >= 0 && epoch >= 0, "epoch_order: n and epoch must not be negative, got n = ", n,
             ", epoch = ", epoch);
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (!shuffle) return order;
  const RngKey key{seed, rng_stream("sampler.order", static_cast<uint64_t>(epoch))};
  for (int64_t i = n - 1; i > 0; --i) {
    const uint64_t j = key.below(static_cast<uint64_t>(i) + 1, static_cast<uint64_t>(i));
    std::swap(order[static_cast<size_t>(i)], order[j]);
  }
  return order;
}

std::vector<int64_t> weighted_order(const std::vector<double>& weights, uint64_t seed,
                                    int64_t epoch) {
  BORA_CHECK(epoch >= 0, "weighted_order: epoch must not be negative, got ", epoch);
  std::vector<double> upto;  // sums of the weights up to each sample
  upto.reserve(weights.size());
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    check_option(std::isfinite(weights[i]) && weights[i] >= 0,
                 bora::detail::join("the weight of sample ", i, " is ", weights[i],
                                    ", wanted a number of at least 0"));
    upto.push_back(sum += weights[i]);
  }
  std::vector<int64_t> order(weights.size());
  if (order.empty()) return order;
  check_option(sum > 0 && std::isfinite(sum),
               bora::detail::join("the weights of ", weights.size(), " samples add up to ", sum,
                                  ", wanted a sum above 0"));
  const RngKey key{seed, rng_stream("sampler.weighted", static_cast<uint64_t>(epoch))};
  constexpr uint64_t kSteps = uint64_t{1} << 53;  // of a double in [0, 1)
  // A draw never falls on a sample of weight 0, whose sum is that of the one before it: the first
  // sum above the place is wanted, and rounding must not carry a place beyond the last sample that
  // has a weight.
  const size_t last =
      static_cast<size_t>(std::lower_bound(upto.begin(), upto.end(), upto.back()) - upto.begin());
  for (size_t i = 0; i < order.size(); ++i) {
    const double place = static_cast<double>(key.below(kSteps, i)) / static_cast<double>(kSteps);
    const auto at = std::upper_bound(upto.begin(), upto.end(), place * sum);
    order[i] = static_cast<int64_t>(std::min(static_cast<size_t>(at - upto.begin()), last));
  }
  return order;
}

std::vector<double> geometry_weights(const std::vector<std::string>& groups,
                                     const std::vector<double>& weights) {
  BORA_CHECK(weights.empty() || weights.size() == groups.size(),
             "geometry_weights: ", groups.size(), " samples and ", weights.size(), " weights");
  std::map<std::string, double> sums;
  const auto own = [&](size_t i) { return weights.empty() ? 1.0 : weights[i]; };
  for (size_t i = 0; i < groups.size(); ++i) sums[groups[i]] += own(i);
  std::vector<double> out(groups.size());
  for (size_t i = 0; i < groups.size(); ++i)
    out[i] = own(i) > 0 ? own(i) / sums[groups[i]] : own(i);
  return out;
}

DistributedSampler::DistributedSampler(SamplerOptions options) : options_(std::move(options)) {
  const SamplerOptions& o = options_;
  check_option(o.n_samples >= 0,
               bora::detail::join("n_samples must not be negative, got ", o.n_samples));
  check_option(o.n_ranks >= 1, bora::detail::join("n_ranks must be at least 1, got ", o.n_ranks));
  check_option(o.rank >= 0 && o.rank < o.n_ranks,
               bora::detail::join("rank must be in [0, ", o.n_ranks, "), got ", o.rank));
  check_option(o.batch >= 1, bora::detail::join("batch must be at least 1, got ", o.batch));
  check_option(o.weights.empty() || static_cast<int64_t>(o.weights.size()) == o.n_samples,
               bora::detail::join("wanted one weight for each of ", o.n_samples, " samples, got ",
                                  o.weights.size()));
}

std::vector<int64_t> DistributedSampler::order(int64_t epoch) const {
  if (!options_.weights.empty()) return weighted_order(options_.weights, options_.seed, epoch);
  return epoch_order(options_.n_samples, options_.seed, epoch, options_.shuffle);
}

int64_t DistributedSampler::count(int64_t position) const {
  BORA_CHECK(position >= 0 && position <= options_.n_samples,
             "DistributedSampler: position must be in [0, ", options_.n_samples, "], got ",
             position);
  const int64_t left = options_.n_samples - position;
  const int64_t ranks = options_.n_ranks;
  switch (options_.tail) {
    case Tail::pad:
      return (left + ranks - 1) / ranks;
    case Tail::drop:
      return left / (ranks * options_.batch) * options_.batch;
    case Tail::uneven:
      return (left + ranks - 1 - options_.rank) / ranks;
  }
  BORA_FAIL("DistributedSampler: unknown tail rule ", static_cast<int>(options_.tail));
}

std::vector<Slot> DistributedSampler::slots(EpochPosition from) const {
  const int64_t n = count(from.position);
  const std::vector<int64_t> epoch = order(from.epoch);
  std::vector<int64_t> repeats;  // of each place of the order
  if (!options_.weights.empty()) {
    std::vector<int64_t> seen(epoch.size(), 0);
    for (const int64_t index : epoch) repeats.push_back(seen[static_cast<size_t>(index)]++);
  }
  std::vector<Slot> out;
  out.reserve(static_cast<size_t>(n));
  for (int64_t t = 0; t < n; ++t) {
    const int64_t slot = from.position + t * options_.n_ranks + options_.rank;
    const auto at = static_cast<size_t>(slot % options_.n_samples);
    out.push_back({slot, epoch[at], from.epoch, slot >= options_.n_samples,
                   repeats.empty() ? 0 : repeats[at]});
  }
  return out;
}

EpochPosition DistributedSampler::advance(EpochPosition from, int64_t n) const {
  BORA_CHECK(n >= 0, "DistributedSampler::advance: n must not be negative, got ", n);
  const int64_t here = count(from.position);
  BORA_CHECK(n <= here, "DistributedSampler::advance: wants ", n, " more slots, but epoch ",
             from.epoch, " has ", here, " from position ", from.position, " on");
  const int64_t next = std::min(from.position + n * options_.n_ranks, options_.n_samples);
  if (n == here) return {from.epoch + 1, 0};
  return {from.epoch, next};
}

void DistributedSampler::require_samples() const {
  if (options_.tail == Tail::uneven || count() > 0) return;
  if (options_.n_samples == 0)
    throw UsageError("no samples to train on: the data set (or its training split) is empty");
  throw UsageError(bora::detail::join(
      "nothing to train on: dropping the last incomplete batch leaves none of the ",
      options_.n_samples, " samples, since ", options_.n_ranks, " ranks with batch ",
      options_.batch, " need ", options_.n_ranks * options_.batch,
      " at once; use fewer ranks, a smaller batch, or do not drop the last batch"));
}

void DistributedSampler::state(StateVisitor& visitor, EpochPosition& position) const {
  int64_t n_samples = options_.n_samples;
  uint64_t seed = options_.seed;
  bool shuffle = options_.shuffle;
  visitor.value("n_samples", n_samples);
  visitor.value("seed", seed);
  visitor.value("shuffle", shuffle);
  visitor.value("epoch", position.epoch);
  visitor.value("position", position.position);
  if (!options_.weights.empty()) {
    uint64_t weights = checksum(options_.weights);
    visitor.value("weights", weights);
    BORA_CHECK(weights == checksum(options_.weights),
               "resuming the order of samples: the weights of the samples are others than those of "
               "the saved run; the data set or the configuration has changed");
  }
  if (!visitor.loading()) return;
  BORA_CHECK(
      n_samples == options_.n_samples && seed == options_.seed && shuffle == options_.shuffle,
      "resuming the order of samples: saved with n_samples = ", n_samples, ", seed = ", seed,
      ", shuffle = ", shuffle, "; now n_samples = ", options_.n_samples, ", seed = ", options_.seed,
      ", shuffle = ", options_.shuffle, "; the data set or the configuration has changed");
  BORA_CHECK(position.epoch >= 0 && position.position >= 0 && position.position <= n_samples,
             "resuming the order of samples: the saved position, epoch ", position.epoch, " slot ",
             position.position, ", is not one of ", n_samples, " samples");
}

}  // namespace bora::data
