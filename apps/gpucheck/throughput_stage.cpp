// SPDX-License-Identifier: Apache-2.0
// Stage "throughput": training steps of one network, in one way; the script runs the ways in turn
// with PyTorch's.
#include <algorithm>

#include "apps/gpucheck/stages.hpp"
#include "apps/gpucheck/training_run.hpp"
#include "core/profile.hpp"

namespace bora::gpucheck {
namespace {

constexpr int kWarmUp = 10, kSteps = 30, kProfiled = 3;

/// Own times of the ops over some steps.  Means something only where launches wait
/// (CUDA_LAUNCH_BLOCKING=1), else an op's time is what queueing it takes.
void time_ops(TrainingRun& run, const std::string& type, Stage& stage) {
  profile_enable(true);
  for (int i = 0; i < kProfiled; ++i) run.step();
  const std::vector<RangeTotal> totals = profile_totals();
  profile_enable(false);
  for (const RangeTotal& t : totals) {
    const double ms = 1e3 * t.self_s / kProfiled;
    stage.bench.push_back({.name = "op " + t.name,
                           .shape = run.text(),
                           .dtype = type,
                           .ms_p10 = ms,
                           .ms_median = ms,
                           .ms_p90 = ms,
                           .n = t.count / kProfiled,
                           .bytes = t.bytes / kProfiled,
                           .flops = t.flops / kProfiled});
  }
}

}  // namespace

Stage throughput_stage(const StageOptions& options) {
  Stage stage{.name = "throughput", .device = options.target.name()};
  if (options.target.kind == Target::Kind::none) return no_device(stage.name, options.target);
  const double begin = now_s();
  const bool mlperf = options.network == "mlperf";
  const int64_t extent = options.tiny ? (mlperf ? 32 : 16) : 128;
  const int64_t batch = options.batch > 0 ? options.batch : (options.tiny ? 1 : 2);
  const int64_t base = options.base > 0 ? options.base : (options.tiny ? 1 : 32);
  const DType type = DType::f16;
  TrainingRun run(make_problem(options.network, base, batch, extent),
                  {.device = options.target.device, .type = type});
  stage.numbers["parameters"] = static_cast<double>(run.n_parameters());
  const int warm_up = options.tiny ? 5 : kWarmUp, steps = options.tiny ? 2 : kSteps;
  if (options.way == "graph") run.use_graph();
  for (int i = 0; i < warm_up; ++i) run.step();
  if (options.way == "graph") {
    const std::string reason = run.why_not_replayed();
    BORA_CHECK(reason.empty(), "throughput: the step is not a graph: ", reason);
  }
  if (options.way == "ops") {
    time_ops(run, std::string(name_of(type)), stage);
  } else {
    std::vector<double> ms;
    for (int i = 0; i < steps; ++i) {
      const double t = now_s();
      run.enqueue();
      run.wait();
      ms.push_back(1e3 * (now_s() - t));
      if (options.budget_s > 0 && now_s() - begin > options.budget_s) break;
    }
    std::sort(ms.begin(), ms.end());
    const auto at = [&](double p) {
      return ms[static_cast<size_t>(p * static_cast<double>(ms.size() - 1) + 0.5)];
    };
    stage.bench.push_back({.name = "ours " + options.way,
                           .shape = run.text(),
                           .dtype = std::string(name_of(type)),
                           .ms_p10 = at(0.1),
                           .ms_median = at(0.5),
                           .ms_p90 = at(0.9),
                           .n = static_cast<int64_t>(ms.size()),
                           .peak_mib = static_cast<double>(run.reserved_bytes()) / (1 << 20)});
    stage.numbers["patches a second"] = 1e3 * static_cast<double>(batch) / at(0.5);
  }
  stage.numbers["skipped"] = static_cast<double>(run.skipped());
  stage.seconds = now_s() - begin;
  return stage;
}

}  // namespace bora::gpucheck
