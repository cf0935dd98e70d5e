// SPDX-License-Identifier: Apache-2.0
// bench_step: one training step on made-up data: time, rate and share of the floor by op, peak
// memory, page faults; under a launcher also what communication adds to it.
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/report.hpp"
#include "apps/common/all_reduce_choice.hpp"
#include "apps/common/device_choice.hpp"
#include "apps/common/threads.hpp"
#include "apps/train/parallel.hpp"
#include "comm/communicator.hpp"
#include "core/build_info.hpp"
#include "core/log.hpp"

namespace bora::bench {
namespace {

struct BenchConfig : StepConfig {
  int64_t warmup = 3;
  int64_t repeats = 10;
  bool ops = true;
  bool convs = false;
  std::string all_reduce = "auto";
  bool threaded = true;
  std::string device = "auto";
  std::string json;
  static constexpr auto fields() {
    return std::tuple_cat(
        StepConfig::fields(),
        std::tuple{
            field("warmup", &BenchConfig::warmup, "steps not counted", at_least(1)),
            field("repeats", &BenchConfig::repeats, "steps counted", positive),
            field("ops", &BenchConfig::ops,
                  "on the CPU: measure the machine, and three more steps with the figures of each "
                  "op"),
            field("convs", &BenchConfig::convs,
                  "also time each convolution of the network alone, in oneDNN"),
            field("all_reduce", &BenchConfig::all_reduce, "several ranks: as comm.all_reduce",
                  apps::kAllReduceChoices),
            field("threaded", &BenchConfig::threaded,
                  "several ranks: reduce in a thread of its own; else where backward comes by"),
            field("device", &BenchConfig::device, "what computes, as in training",
                  one_of("auto", "cpu", "cuda")),
            field("json", &BenchConfig::json, "also write the result to this file (JSON lines)")});
  }
};

constexpr int64_t kProfiledSteps = 3;
constexpr int64_t kMostRunsToCapture = 8;  // more than a StepGraph's warm-up and capture take
constexpr int kConvolutionRounds = 5;

struct Usage {
  int64_t faults, peak_kib;
};
Usage usage() {
  rusage u{};
  ::getrusage(RUSAGE_SELF, &u);
  return {u.ru_minflt + u.ru_majflt, u.ru_maxrss};
}

void time_steps(const BenchConfig& c, Step& step, Collective& ranks, StepReport& report) {
  const Device device = step.device();
  for (int64_t i = 0; i < c.warmup; ++i) step.run();
  // Where the step becomes a graph, only replays are timed.
  for (int64_t i = 0; i < kMostRunsToCapture && step.way() != std::string("replayed"); ++i) {
    if (!step.captures()) break;
    step.run();
  }
  const Stream stream = current_stream(device);
  stream.synchronize();
  caching_allocator(device).reset_peak();
  report.ms.resize(static_cast<size_t>(c.repeats));
  std::vector<double> waits_ms;
  ranks.barrier("begin of the timed steps");
  const Usage before = usage();
  // On a device a step ends when the event behind it is done; it is looked at after the next one is
  // issued, so that the device never waits for the host's clock.  So one step more runs before the
  // counted ones, whose end is their beginning, and one behind: each time holds one issue, also
  // where issuing is what takes the time.
  const size_t n_around = device == cpu() ? 0 : 1;
  std::optional<Event> end;
  double last_s = now_s();
  for (size_t i = 0; i < report.ms.size() + 2 * n_around; ++i) {
    if (device == cpu()) last_s = now_s();
    const double waited_s = step.exchange_counters().wait_s;
    step.run();
    if (device != cpu()) {
      const Event issued = stream.record();
      if (end) end->synchronize();
      end = issued;
    }
    const double s = now_s();
    if (i >= 2 * n_around) report.ms[i - 2 * n_around] = 1e3 * (s - last_s);
    last_s = s;
    waits_ms.push_back(1e3 * (step.exchange_counters().wait_s - waited_s));
  }
  if (end) end->synchronize();
  const Usage after = usage();
  const auto mean = [](const std::vector<double>& v) {
    return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
  };
  report.exposed_ms = mean(ranks.all_reduce(waits_ms, ReduceOp::min, "shortest waits"));
  report.longest_wait_ms = mean(ranks.all_reduce(waits_ms, ReduceOp::max, "longest waits"));
  std::sort(report.ms.begin(), report.ms.end());
  report.faults_a_step =
      static_cast<double>(after.faults - before.faults) / static_cast<double>(waits_ms.size());
  report.peak_resident_mib = static_cast<double>(after.peak_kib) / 1024.0;
  report.memory = caching_allocator(device).stats();
}

void profile_ops(Step& step, StepReport& report) {
  profile_enable(true);
  for (int64_t i = 0; i < kProfiledSteps; ++i) step.run();
  const std::vector<RangeTotal> totals = profile_totals();
  profile_enable(false);
  report.machine = measure_machine_peak(report.threads);
  report.ops = op_figures(totals, kProfiledSteps, *report.machine, step.compute_type());
}

int run(const MpiSession& session, int argc, char** argv) {
  BenchConfig c;
  const ConfigArgs given = config_parse_args(
      c, "bench_step", std::vector<std::string>(argv + 1, argv + argc),
      {.about = "Times one training step on made-up data.  docs/benchmarking.md says more.",
       .positionals = {}});
  const bool main = session.rank() == 0;
  if (!given.help.empty()) return main && std::fputs(given.help.c_str(), stdout), 0;
  std::vector<Convolution> convolutions;
  if (c.convs) convolutions = convolutions_of(c);

  StepReport report;
  report.config = c;
  report.threads = apps::set_compute_threads(session.local_size());
  CommunicatorOptions options;
  options.all_reduce = all_reduce_algorithm(c.all_reduce);
  options.threaded = c.threaded;
  const auto ranks = make_communicator(session, options);
  report.ranks = ranks->size();
  const apps::DeviceChoice choice = apps::choose_device(c.device, session, *ranks);
  report.device = choice.text();
  const auto tensors = train::make_tensor_group({}, session, *ranks, choice.device);
  Step step(c, *ranks, {choice.device, tensors.get()});
  report.n_parameters = step.n_parameters();
  time_steps(c, step, *ranks, report);
  report.skipped = step.skipped();
  report.way = step.way();
  // Ranges are the host's times: of a device they would say how long it takes to issue the work.
  if (c.ops && step.device() == cpu()) profile_ops(step, report);
  BORA_CHECK(std::isfinite(step.loss()), "bench_step: the loss became ", step.loss());
  if (!main) return 0;
  for (const Convolution& conv : convolutions)
    report.convolutions.push_back(
        {conv, time_convolution(conv, step.compute_type(), kConvolutionRounds)});

  std::printf("%s\n", build_info_text().c_str());
  print(report);
  if (!c.json.empty()) write_json(report, c.json);
  return 0;
}

}  // namespace
}  // namespace bora::bench

int main(int argc, char** argv) {
  return bora::run_ranks(
      argc, argv, [&](bora::MpiSession& session) { return bora::bench::run(session, argc, argv); });
}
