// SPDX-License-Identifier: Apache-2.0
#include "data/sampler.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "core/rng.hpp"

namespace bora::data {
namespace {

void check_option(bool ok, const std::string& message) {
  if (!ok) throw UsageError("DistributedSampler: " + message);
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

DistributedSampler::DistributedSampler(SamplerOptions options) : options_(options) {
  check_option(options.n_samples >= 0,
               bora::detail::join("n_samples must not be negative, got ", options.n_samples));
  check_option(options.n_ranks >= 1,
               bora::detail::join("n_ranks must be at least 1, got ", options.n_ranks));
  check_option(
      options.rank >= 0 && options.rank < options.n_ranks,
      bora::detail::join("rank must be in [0, ", options.n_ranks, "), got ", options.rank));
  check_option(options.batch >= 1,
               bora::detail::join("batch must be at least 1, got ", options.batch));
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
  const auto order = epoch_order(options_.n_samples, options_.seed, from.epoch, options_.shuffle);
  std::vector<Slot> out;
  out.reserve(static_cast<size_t>(n));
  for (int64_t t = 0; t < n; ++t) {
    const int64_t slot = from.position + t * options_.n_ranks + options_.rank;
    const int64_t at = slot % options_.n_samples;
    out.push_back({slot, order[static_cast<size_t>(at)], from.epoch, slot >= options_.n_samples});
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
