// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/parallel.hpp"

#include "comm/gradient_reducer.hpp"
#include "comm/shard_reducer.hpp"
#include "core/backend.hpp"

namespace bora::unet3d {

bool reproducible(const Config& config) { return config.comm.all_reduce == "reproducible"; }

void check_device(const std::string& device) {
  if (device != "cuda") return;
  throw UsageError(has_backend(DeviceType::cuda)
                       ? "device=cuda: training on GPUs is not ready in this version; wanted cpu "
                         "or auto"
                       : "device=cuda: there is no CUDA device here, or this build has no CUDA; "
                         "wanted cpu or auto");
}

void check_parallel(const Config& config) {
  if (!reproducible(config)) return;
  const std::string what = "comm.all_reduce=reproducible with ";
  if (config.model.norm == "batch" || config.model.norm == "sync_batch")
    throw UsageError(what + "model.norm=" + config.model.norm +
                     ": statistics over a batch depend on how samples are shared among the ranks; "
                     "wanted group or instance");
  if (config.comm.gradient_type != "f32")
    throw UsageError(what + "comm.gradient_type=" + config.comm.gradient_type +
                     ": its sums are formed in f32");
}

CommunicatorOptions communicator_options(const CommConfig& config) {
  CommunicatorOptions options;
  options.all_reduce = all_reduce_algorithm(config.all_reduce);
  options.timeout_s = config.timeout_s;
  return options;
}

MemorySource shared_memory(Collective& ranks) {
  if (ranks.size() == 1 || ranks.device_type() != DeviceType::cpu) return {};
  return [&ranks](int64_t bytes) { return make_shared_tensor(ranks, bytes); };
}

apps::WindowPlan window_plan(const Config& config, int64_t n_samples, const Collective& ranks) {
  const data::SamplerOptions sampler{.n_samples = n_samples,
                                     .n_ranks = ranks.size(),
                                     .rank = ranks.rank(),
                                     .seed = config.train.seed,
                                     .shuffle = true,
                                     .tail = data::Tail::pad,
                                     .batch = config.train.batch};
  return {sampler,
          {.batch = config.train.batch,
           .accumulate = config.train.accumulate,
           .shard_samples = reproducible(config) ? config.comm.shard_samples : 0}};
}

std::unique_ptr<GradientExchange> make_exchange(const Config& config, nn::ParameterArena& arena,
                                                const apps::WindowPlan& plan, Collective& ranks) {
  if (plan.sharded())
    return std::make_unique<ShardReducer>(
        arena.gradients(), arena.leaves(), ranks,
        ShardOptions{.n_shards = plan.n_shards(), .unused_as_zero = config.comm.unused_as_zero});
  ReducerOptions options;
  options.op = ReduceOp::sum;
  options.unused_as_zero = config.comm.unused_as_zero;
  options.buckets.target = config.comm.bucket_mb << 20;
  options.travel = dtype_from(config.comm.gradient_type);
  options.staging_memory = shared_memory(ranks);
  return std::make_unique<GradientReducer>(arena.gradients(), arena.leaves(), ranks, options);
}

std::vector<std::string> parallel_warnings(const Config& config, int n_ranks) {
  std::vector<std::string> warnings;
  if (config.model.norm == "batch" && n_ranks > 1)
    warnings.push_back(detail::join(
        "batch norm with ", n_ranks,
        " ranks: each rank normalises with its own statistics, and rank 0's running ones are used "
        "for validation and saved; model.norm=sync_batch joins them"));
  if (config.model.norm == "batch" && config.train.batch == 1)
    warnings.push_back(
        "batch norm with batch 1: statistics of one sample; group or instance norm suit better");
  return warnings;
}

}  // namespace bora::unet3d
