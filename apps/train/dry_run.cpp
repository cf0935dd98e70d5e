// SPDX-License-Identifier: Apache-2.0
#include "apps/train/dry_run.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "apps/common/progress.hpp"
#include "apps/common/text.hpp"
#include "apps/common/threads.hpp"
#include "apps/train/dry_run_text.hpp"
#include "apps/train/parallel.hpp"
#include "apps/train/run_folder.hpp"
#include "apps/train/setup.hpp"
#include "core/host.hpp"
#include "core/log.hpp"
#include "core/memory_report.hpp"
#include "core/precision.hpp"
#include "core/profile.hpp"
#include "data/checkpoint.hpp"
#include "data/output_place.hpp"

namespace bora::train {
namespace {

namespace fs = std::filesystem;

/// Resident bytes of this process that are in no tensor.
int64_t program_bytes() {
  std::ifstream in("/proc/self/statm");
  int64_t size = 0, resident = 0;
  if (!(in >> size >> resident)) return 0;
  return std::max<int64_t>(resident * ::sysconf(_SC_PAGESIZE) - memory_of(cpu()).live, 0);
}

/// What samples are like: one of this rank's cases, or where the task does not know its extents the
/// largest of those that 2 s were enough to read.
struct Looked {
  data::Sample largest;
  Dims3 full;  ///< of the largest of all ranks
  int64_t n_looked = 0;
};
Looked look_at_samples(const Task& task, Collective& ranks) {
  const data::Dataset& cases = task.training();
  const bool known = task.largest_extents().count() > 0;
  Looked looked;
  ranks.agree("reading a sample", [&] {
    const double begin_s = now_s();
    for (int64_t i = ranks.rank(); i < std::max<int64_t>(cases.size(), ranks.rank() + 1);
         i += ranks.size()) {
      data::Sample sample =
          data::read_sample(cases, i % cases.size(), data::WindowChoice::centred());
      ++looked.n_looked;
      if (!looked.largest.region.defined() || sample.region.numel() > looked.largest.region.numel())
        looked.largest = std::move(sample);
      if (known || now_s() - begin_s > 2) break;
    }
  });
  if (known) {
    looked.full = task.largest_extents();
    looked.n_looked = cases.size();
    return looked;
  }
  const Tensor& region = looked.largest.region;
  const std::vector<std::string> all = ranks.all_gather_text(
      detail::join(region.size(0), ' ', region.size(1), ' ', region.size(2)), "extents");
  for (const std::string& text : all) {
    std::istringstream in(text);
    Dims3 e;
    in >> e.d >> e.h >> e.w;
    if (e.count() > looked.full.count()) looked.full = e;
  }
  looked.n_looked = ranks.all_reduce(looked.n_looked, ReduceOp::sum, "samples looked at");
  return looked;
}

int64_t rank_samples(const RunConfig& config, const apps::WindowPlan& plan) {
  return plan.sharded() ? std::min(config.comm.shard_samples, plan.samples()) : config.train.batch;
}

int64_t queue_samples(const LoaderConfig& loader) { return loader_options(loader).queue_depth; }

/// Sums over the ranks of each host, with what these share, and what the host has free: the
/// smallest figure of its ranks.
std::vector<HostMemory> join_hosts(Collective& ranks, int64_t need, int64_t shared, int64_t free,
                                   const std::string& reason) {
  const std::vector<std::string> all = ranks.all_gather_text(
      detail::join(host_name(), '\n', need, '\n', free, '\n', reason), "memory of the hosts");
  std::vector<HostMemory> hosts;
  for (const std::string& text : all) {
    std::istringstream in(text);
    HostMemory h;
    std::string line;
    std::getline(in, h.host);
    std::getline(in, line);
    h.need = std::stoll(line);
    std::getline(in, line);
    h.free = std::stoll(line);
    std::getline(in, h.reason);
    const auto known = std::find_if(hosts.begin(), hosts.end(),
                                    [&](const HostMemory& k) { return k.host == h.host; });
    if (known == hosts.end()) {
      h.need += shared;  // the same on all ranks
      hosts.push_back(h);
      continue;
    }
    known->need += h.need;
    ++known->n_ranks;
    if (h.free >= 0 && (known->free < 0 || h.free < known->free)) {
      known->free = h.free;
      known->reason = h.reason;
    }
  }
  return hosts;
}

Verdict worst(const std::vector<HostMemory>& places) {
  Verdict worst = Verdict::fits;
  for (const HostMemory& p : places) worst = std::max(worst, verdict_of(p.need, p.free));
  return worst;
}

FreeMemory free_now(Device device, const DryRunOptions& options) {
  if (options.free_bytes >= 0) return {options.free_bytes, "given"};
  return device == cpu() ? free_host_memory(options.memory) : free_memory(device);
}

/// Micro-steps of an epoch on a rank.
int64_t micro_steps_an_epoch(const apps::WindowPlan& plan) {
  return plan.updates_an_epoch() * static_cast<int64_t>(plan.micro_steps(plan.samples()).size());
}

}  // namespace

int64_t RankMemory::tensors() const {
  return state.total() + step + batch + (on_device ? 0 : queue + cache + snapshot);
}
int64_t RankMemory::host() const {
  return program + (on_device ? queue + cache + batch + snapshot : tensors());
}
int64_t RankMemory::device() const { return on_device ? tensors() : 0; }

std::string name_of(Verdict verdict) {
  if (verdict == Verdict::does_not_fit) return "does not fit";
  return verdict == Verdict::tight ? "tight" : "fits";
}

Verdict verdict_of(int64_t need, int64_t free) {
  if (free < 0) return Verdict::fits;
  if (need > free) return Verdict::does_not_fit;
  return static_cast<double>(need) > 0.85 * static_cast<double>(free) ? Verdict::tight
                                                                      : Verdict::fits;
}

DryRun dry_run(const Trainer::MakeTask& make_task, const RunConfig& config, Collective& ranks,
               const ComputePlace& place, const DryRunOptions& options) {
  const Device device = place.device;
  const std::unique_ptr<Collective> alone = group_of_one(ranks, place);
  Collective& tensors = place.tensors != nullptr ? *place.tensors : alone ? *alone : ranks;
  check_parallel(config, device, ranks.size());
  const std::unique_ptr<Task> task = make_task();
  BORA_CHECK(task, "dry run: there is no task");
  task->set_collective(&tensors);
  task->prepare(ranks);
  const apps::WindowPlan plan = window_plan(config, task->training().size(), ranks,
                                            sampling_weights(*task, config.train.sampling));
  plan.sampler().require_samples();

  DryRun result;
  RankMemory& rank = result.rank;
  rank.on_device = device != cpu();
  rank.state = state_bytes(task->model(), config, plan, ranks.size());
  const int64_t samples = rank_samples(config, plan);
  Looked looked;
  looked.full = task->largest_extents();
  if (looked.full.count() > 0) looked.n_looked = task->training().size();
  const auto count_samples = [&] {
    const int64_t one = sample_bytes(task->training().n_channels(), looked.full);
    rank.queue = one * queue_samples(config.loader);
    rank.batch = one * samples * (rank.on_device ? 2 : 1);
  };
  count_samples();
  rank.snapshot = ranks.rank() == 0 ? rank.state.checkpoint() : 0;
  const Task::CacheMemory cache = task->cache_memory();
  rank.cache = cache.of_rank;
  result.shared_cache = cache.of_host;
  rank.program = program_bytes();

  const FreeMemory host_free = free_now(cpu(), options), device_free = free_now(device, options);
  const auto places = [&] {
    std::vector<HostMemory> all =
        join_hosts(ranks, rank.host(), result.shared_cache, host_free.bytes, host_free.reason);
    if (rank.on_device) {
      // The fullest device stands for all.
      const int64_t need = ranks.all_reduce(rank.device(), ReduceOp::max, "memory of the devices"),
                    free = ranks.all_reduce(device_free.bytes, ReduceOp::min, "free on devices");
      all.push_back({"each device", need, free, 1, device_free.reason});
    }
    return all;
  };
  // Nothing is read or allocated for what does not fit already.
  if (worst(places()) != Verdict::does_not_fit) {
    looked = look_at_samples(*task, ranks);
    count_samples();
  }
  if (looked.largest.region.defined() && worst(places()) != Verdict::does_not_fit) {
    nn::ParameterArena arena(task->model(), DType::f32, precision_type(config.precision), device,
                             shared_memory(tensors));
    nn::initialise(task->model(), config.train.seed);
    arena.refresh_working();
    result.measured = measure_steps(*task, config, tensors.control(), arena, looked.largest,
                                    looked.full, samples, options.probe);
    const StepCost step = extrapolate(result.measured, looked.full, samples);
    rank.step = step.bytes;
    rank.step_at_most = std::max(step.at_most, step.bytes);
    const int64_t n_validation = task->validation() ? task->validation()->size() : 0;
    // A validation's pass is about a third of a training pass.
    result.epoch_s = step.seconds * (static_cast<double>(micro_steps_an_epoch(plan)) +
                                     static_cast<double>(n_validation) /
                                         static_cast<double>(3 * samples * ranks.size()));
  }
  const std::vector<HostMemory> all = places();
  result.verdict = worst(all);
  if (result.verdict == Verdict::fits && rank.step_at_most > rank.step) {
    RankMemory& most = rank;
    const int64_t likely = std::exchange(most.step, most.step_at_most);
    if (worst(places()) != Verdict::fits) result.verdict = Verdict::tight;
    most.step = likely;
  }

  std::string output;
  ranks.agree("looking at " + config.output.dir, [&] {
    if (ranks.rank() == 0) output = check_output(config, rank.state.checkpoint());
  });
  const std::string text = ranks.broadcast_text(
      ranks.rank() == 0 ? plan_text({*task, config, plan, result, all, output, looked.full, samples,
                                     looked.n_looked, ranks.size()})
                        : std::string(),
      0, "plan");
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) result.lines.push_back(line);
  return result;
}

std::string check_output(const RunConfig& config, int64_t checkpoint_bytes) {
  const std::string& dir = config.output.dir;
  const std::string found = other_run(config);
  data::check_folder(dir, "output.dir " + dir);
  std::error_code failure;
  fs::path at = fs::absolute(dir, failure).lexically_normal();
  const bool there = fs::exists(at, failure);
  while (!fs::exists(at, failure) && at != at.parent_path()) at = at.parent_path();
  std::string line = "output: " + dir;
  if (found.empty())
    line += there ? " (no run in it yet)" : " (to be made)";
  else if (config.overwrite)
    line += " (holds a run, which --overwrite removes)";
  else
    line += " (holds a run, which --resume goes on with)";
  const fs::space_info space = fs::space(at, failure);
  // last.h5, last.prev.h5, best.h5, those kept, and the one that is being written.
  const int64_t n_files = 4 + kept_checkpoints(config.output), need = n_files * checkpoint_bytes;
  line += ", a checkpoint is " + bytes_text(checkpoint_bytes);
  if (failure) return line;
  const auto free = static_cast<int64_t>(space.available);
  line += ", up to " + bytes_text(need) + " in all; " + bytes_text(free) + " are free there";
  if (need > free) throw UsageError(line + ": not enough. Give room, or take another output.dir");
  return line;
}

std::string state_warning(nn::Module& model, const RunConfig& config, const apps::WindowPlan& plan,
                          Collective& ranks, Device device) {
  const int64_t need = state_bytes(model, config, plan, ranks.size()).total();
  const FreeMemory free = free_memory(device);
  std::vector<HostMemory> places;
  if (device == cpu())
    places = join_hosts(ranks, need, 0, free.bytes, free.reason);
  else
    places = {{"each device", need, ranks.all_reduce(free.bytes, ReduceOp::min, "free on devices"),
               1, free.reason}};
  for (const HostMemory& p : places)
    if (verdict_of(p.need, p.free) == Verdict::does_not_fit)
      return detail::join(p.host, ": weights, gradients and the optimizer's moments of ", p.n_ranks,
                          p.n_ranks > 1 ? " ranks" : " rank", " alone take ", bytes_text(p.need),
                          ", ", bytes_text(p.free), ' ', p.reason,
                          ": the run will hardly fit (--dry-run says more)");
  return {};
}

}  // namespace bora::train
