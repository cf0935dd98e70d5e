// SPDX-License-Identifier: Apache-2.0
#include "apps/train/parallel.hpp"

#include "apps/train/global_batch.hpp"
#include "comm/gradient_reducer.hpp"
#include "comm/nccl_communicator.hpp"
#include "comm/nccl_flight.hpp"
#include "comm/shard_reducer.hpp"

#include <utility>

namespace bora::train {
namespace {

// The ranks compare what they do at every so-manieth operation on the device.
constexpr int kCheckEvery = 64;

}  // namespace

bool reproducible(const RunConfig& config) { return config.comm.all_reduce == "reproducible"; }

void check_parallel(const RunConfig& config, Device device, int n_ranks) {
  accumulate_of(config.train, n_ranks);  // throws
  if (device != cpu() && config.comm.gradient_type != "f32")
    throw UsageError("device=cuda with comm.gradient_type=" + config.comm.gradient_type +
                     ": gradients travel in f32 between GPUs; wanted f32");
  if (device != cpu() && n_ranks > 1 && config.cuda.tune)
    throw UsageError(detail::join("cuda.tune with ", n_ranks,
                                  " ranks: each would choose other engines; tune with one rank and "
                                  "--resume with more, which then use its choices"));
  if (!reproducible(config)) return;
  const std::string what = "comm.all_reduce=reproducible with ";
  if (device != cpu())
    throw UsageError(what + "device=cuda: its sums are formed on the host; wanted auto");
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

std::unique_ptr<Collective> make_tensor_group(const CommConfig& config, const MpiSession& session,
                                              Collective& ranks, Device device) {
  if (device == cpu()) return nullptr;
  if (ranks.size() == 1) return make_self_communicator(device.type);
  NcclOptions options;
  options.timeout_s = config.timeout_s;
  // A comparison before each operation would let every bucket wait for a message between hosts.
  options.check_every = kCheckEvery;
  options.devices = {device.index};
  options.observer = make_flight_observer();
  return with_context("device=cuda",
                      [&] { return make_nccl_communicator(ranks, nccl_place(session), options); });
}

MemorySource shared_memory(Collective& ranks) {
  if (ranks.size() == 1 || ranks.device_type() != DeviceType::cpu) return {};
  return [&ranks](int64_t bytes) { return make_shared_tensor(ranks, bytes); };
}

apps::WindowPlan window_plan(const RunConfig& config, int64_t n_samples, const Collective& ranks,
                             std::vector<double> weights) {
  const data::SamplerOptions sampler{.n_samples = n_samples,
                                     .n_ranks = ranks.size(),
                                     .rank = ranks.rank(),
                                     .seed = config.train.seed,
                                     .shuffle = true,
                                     .tail = data::Tail::pad,
                                     .batch = config.train.batch,
                                     .weights = std::move(weights)};
  return {sampler,
          {.batch = config.train.batch,
           .accumulate = accumulate_of(config.train, ranks.size()),
           .shard_samples = reproducible(config) ? config.comm.shard_samples : 0}};
}

std::unique_ptr<GradientExchange> make_exchange(const RunConfig& config, nn::ParameterArena& arena,
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

}  // namespace bora::train
