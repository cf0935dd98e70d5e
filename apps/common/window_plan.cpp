// SPDX-License-Identifier: Apache-2.0
#include "apps/common/window_plan.hpp"

#include <algorithm>
#include <bit>

namespace bora::apps {

WindowPlan::WindowPlan(const data::SamplerOptions& sampler, const WindowOptions& options)
    : sampler_(sampler), options_(options) {
  BORA_CHECK(sampler.tail == data::Tail::pad, "WindowPlan: wants a sampler that pads");
  BORA_CHECK(options.batch > 0 && options.accumulate > 0 && options.shard_samples >= 0,
             "WindowPlan: batch ", options.batch, ", accumulate ", options.accumulate,
             ", shard_samples ", options.shard_samples, ", wanted positive values");
  if (!sharded()) return;
  const int64_t here = options.batch * options.accumulate;
  shards_here_ = here / options.shard_samples;
  if (here % options.shard_samples != 0 ||
      !std::has_single_bit(static_cast<uint64_t>(shards_here_)))
    throw UsageError(bora::detail::join(
        "reproducible sums: an update takes ", here, " samples a rank (train.batch ", options.batch,
        " x train.accumulate ", options.accumulate, "), in virtual shards of ",
        options.shard_samples, " (comm.shard_samples); wanted 1, 2, 4, 8, ... shards a rank"));
}

int64_t WindowPlan::samples_at(data::EpochPosition from) const {
  return std::min(samples(), sampler_.n_samples - from.position);
}

int64_t WindowPlan::updates_an_epoch() const {
  return (sampler_.n_samples + samples() - 1) / samples();
}

int64_t WindowPlan::n_shards() const { return shards_here_ * sampler_.n_ranks; }

// The samples of a shard are those of a rank in a world of n_shards ranks.
data::DistributedSampler WindowPlan::stream(int64_t shard) const {
  data::SamplerOptions o = sampler_;
  o.n_ranks = static_cast<int>(n_shards());
  o.rank = static_cast<int>(sampler_.rank * shards_here_ + shard);
  return data::DistributedSampler(o);
}

std::vector<data::Slot> WindowPlan::slots(data::EpochPosition from) const {
  if (!sharded()) return data::DistributedSampler(sampler_).slots(from);
  std::vector<std::vector<data::Slot>> streams;
  for (int64_t k = 0; k < shards_here_; ++k) streams.push_back(stream(k).slots(from));
  const auto n = static_cast<int64_t>(streams[0].size());  // the same for all: the sampler pads
  std::vector<data::Slot> out;
  for (int64_t begin = 0; begin < n; begin += options_.shard_samples)
    for (const auto& s : streams)
      out.insert(out.end(), s.begin() + begin,
                 s.begin() + std::min(n, begin + options_.shard_samples));
  return out;
}

std::vector<int64_t> WindowPlan::micro_steps(int64_t window_samples) const {
  BORA_CHECK(window_samples > 0 && window_samples <= samples(), "WindowPlan: a window of ",
             window_samples, " samples, wanted 1 to ", samples());
  const auto share = [&](int64_t n) { return (window_samples + n - 1) / n; };
  if (sharded()) return std::vector<int64_t>(static_cast<size_t>(shards_here_), share(n_shards()));
  std::vector<int64_t> steps;
  for (int64_t left = share(sampler_.n_ranks); left > 0; left -= steps.back())
    steps.push_back(std::min(left, options_.batch));
  return steps;
}

}  // namespace bora::apps
