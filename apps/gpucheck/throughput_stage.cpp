// SPDX-License-Identifier: Apache-2.0
// Stage "throughput": training steps of one network, in one way; the script runs the ways in turn
// with PyTorch's.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "apps/gpucheck/stages.hpp"
#include "apps/gpucheck/training_run.hpp"
#include "core/profile.hpp"
#include "kernels/cuda/conv3d_settings.hpp"
#if defined(BORA_CUDA)
#include "kernels/cuda/device_facts.hpp"
#endif

namespace bora::gpucheck {
namespace {

constexpr int kFirst = 3, kWarmUp = 10, kSteps = 30, kProfiled = 3;

void load_plans(const std::string& path) {
  std::ifstream in(path);
  if (!in) return;  // the first to use it
  std::stringstream text;
  text << in.rdbuf();
  kernels::cuda::load_plan_file_text(text.str());
}
void save_plans(const std::string& path) {
  const std::string partial = path + ".partial";  // the next way must not find half of it
  std::ofstream out(partial);
  out << kernels::cuda::plan_file_text();
  out.close();
  BORA_CHECK(out.good() && std::rename(partial.c_str(), path.c_str()) == 0,
             "throughput: cannot write '", path, "'");
}

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
  kernels::cuda::Conv3dSettings settings = kernels::cuda::conv3d_settings();
  settings.tune = true;
  kernels::cuda::set_conv3d_settings(settings);
  if (!options.plan_file.empty()) load_plans(options.plan_file);
  TrainingRun run(make_problem(options.network, base, batch, extent),
                  {.device = options.target.device, .type = type});
  stage.numbers["parameters"] = static_cast<double>(run.n_parameters());
  const int warm_up = options.tiny ? 5 : kWarmUp, steps = options.tiny ? 2 : kSteps;
  // Convolutions are met: plans are timed and qualified, as PyTorch's benchmark mode does, which
  // takes memory and time that a step does not.
  for (int i = 0; i < kFirst; ++i) run.step();
  if (options.so_far) options.so_far(stage);
  run.count_memory_anew();
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
                           .peak_mib = static_cast<double>(run.memory().allocated) / (1 << 20)});
    stage.numbers["reserved MiB"] = static_cast<double>(run.memory().reserved) / (1 << 20);
#if defined(BORA_CUDA)
    if (options.target.timed())
      stage.numbers["card MiB"] =
          static_cast<double>(kernels::cuda::memory_in_use(options.target.device)) / (1 << 20);
#endif
    stage.numbers["patches a second"] = 1e3 * static_cast<double>(batch) / at(0.5);
  }
  if (!options.plan_file.empty()) save_plans(options.plan_file);
  stage.numbers["skipped"] = static_cast<double>(run.skipped());
  stage.seconds = now_s() - begin;
  return stage;
}

}  // namespace bora::gpucheck
