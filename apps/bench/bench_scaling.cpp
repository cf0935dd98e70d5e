// SPDX-License-Identifier: Apache-2.0
// bench_scaling: data-parallel training steps of one job, beside the same steps without reductions
// and the reductions alone.  scripts/scaling_study.sh starts it for a list of rank counts.
#include <omp.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <set>

#include "apps/bench/scaling.hpp"
#include "apps/bench/step.hpp"
#include "apps/common/all_reduce_choice.hpp"
#include "apps/common/place.hpp"
#include "apps/common/threads.hpp"
#include "comm/communicator.hpp"
#include "comm/rank_group.hpp"
#include "core/log.hpp"
#include "core/profile.hpp"
#include "data/data_manager.hpp"
#include "data/wind_dataset.hpp"

namespace bora::bench {
namespace {

struct ScalingConfig : StepConfig {
  data::WindConfig data;
  int64_t global_batch = 0;
  int64_t warmup = 3;
  int64_t repeats = 10;
  int loader_threads = 2;
  std::string all_reduce = "auto";
  bool link = false;
  std::string json;
  static constexpr auto fields() {
    using C = ScalingConfig;
    return std::tuple_cat(
        StepConfig::fields(),
        std::tuple{
            field("data", &C::data, "Cases to read samples from; without data.root they are noise"),
            field("global_batch", &C::global_batch,
                  "strong scaling: samples of all ranks together (batch is then global_batch / "
                  "ranks); 0: weak scaling, batch samples a rank",
                  at_least(0)),
            field("warmup", &C::warmup, "steps not counted", at_least(1)),
            field("repeats", &C::repeats, "steps counted", positive),
            field("loader_threads", &C::loader_threads, "threads that read ahead (with data.root)",
                  between(0, 256)),
            field("all_reduce", &C::all_reduce, "as comm.all_reduce in training",
                  apps::kAllReduceChoices),
            field("link", &C::link,
                  "measure latency and bandwidth between the ranks, and predict the step by them"),
            field("json", &C::json, "also append the result to this file (JSON lines)")});
  }
};

constexpr int kLinkRepeats = 7;

double median(const std::vector<double>& v) { return percentile(v, 0.5); }

double cpu_s() {
  rusage u{};
  ::getrusage(RUSAGE_SELF, &u);
  const auto s = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return s(u.ru_utime) + s(u.ru_stime);
}

/// Endless samples out of files, as the trainer reads them.
class Feed {
 public:
  Feed(const ScalingConfig& c, Collective& ranks)
      : dataset_(c.data, &ranks),
        manager_(dataset_, {.n_ranks = ranks.size(),
                            .rank = ranks.rank(),
                            .batch = c.batch,
                            .tail = data::Tail::drop,  // all batches of one size
                            .loader = {.n_threads = c.loader_threads}}) {
    if (dataset_.n_channels() != 1)
      throw UsageError("bench_scaling: data.angle_channels gives the input 3 channels, wanted 1");
    std::vector<int64_t> all(static_cast<size_t>(dataset_.size()));
    std::iota(all.begin(), all.end(), int64_t{0});
    dataset_.fit_normaliser(all, ranks);
  }
  /// As many samples as a step takes; at the end of an epoch the next begins.
  data::Batch next() {
    std::optional<data::Batch> batch = manager_.next();
    if (!batch) batch = manager_.next();
    BORA_CHECK(batch, "bench_scaling: an epoch without a batch");
    return std::move(*batch);
  }

 private:
  data::WindDataset dataset_;
  data::DataManager manager_;
};

/// How fast an all-reduction is while every rank's threads compute, as a share of its speed alone.
double measure_busy_rate(Collective& ranks) {
  Tensor x = Tensor::zeros({int64_t{2} << 20}, DType::f32);
  std::vector<double> idle, busy;
  for (int i = 0; i < kLinkRepeats; ++i) {
    ranks.barrier("together");
    double begin = now_s();
    ranks.all_reduce_async(x, ReduceOp::sum, "link").wait();
    idle.push_back(now_s() - begin);
    ranks.barrier("together");
    begin = now_s();
    const Work work = ranks.all_reduce_async(x, ReduceOp::sum, "link beside computing");
    std::atomic<bool> done{false};
#pragma omp parallel
    {
      volatile float sink = 0;
      while (!done.load(std::memory_order_relaxed)) {
        float a = 1.0f;
        for (int k = 0; k < 100000; ++k) a = a * 0.999f + 0.5f;
        sink = a;
        if (omp_get_thread_num() == 0 && work.done()) done = true;
      }
      static_cast<void>(sink);
    }
    busy.push_back(now_s() - begin);
    work.wait();
  }
  idle = ranks.all_reduce(idle, ReduceOp::max, "slowest rank");
  busy = ranks.all_reduce(busy, ReduceOp::max, "slowest rank");
  return std::clamp(median(idle) / median(busy), 0.01, 1.0);
}

Link measure_link(Collective& ranks) {
  std::vector<ReduceTime> times;
  double cpu = 0, moved = 0;
  for (const int64_t bytes : {int64_t{4} << 10, int64_t{64} << 10, int64_t{1} << 20,
                              int64_t{4} << 20, int64_t{16} << 20}) {
    Tensor x = Tensor::zeros({bytes / 4}, DType::f32);
    std::vector<double> s;
    for (int i = 0; i < kLinkRepeats; ++i) {
      ranks.barrier("together");
      const double begin = now_s(), cpu_begin = cpu_s();
      ranks.all_reduce_async(x, ReduceOp::sum, "link").wait();
      s.push_back(now_s() - begin);
      if (bytes >= int64_t{4} << 20) {
        cpu += cpu_s() - cpu_begin;
        moved += bytes_a_rank(static_cast<double>(bytes), ranks.size());
      }
    }
    times.push_back({static_cast<double>(bytes),
                     median(ranks.all_reduce(s, ReduceOp::max, "slowest rank")),
                     automatic_way(static_cast<double>(bytes))});
  }
  Link link = fit_link(times, ranks.size());
  link.busy_rate = measure_busy_rate(ranks);
  if (moved > 0)
    link.cpu_s_a_byte = ranks.all_reduce(cpu / moved, ReduceOp::mean, "CPU time of the link");
  return link;
}

using Seconds = std::chrono::duration<double>;

StepTimeline timeline_of(const std::vector<Step::Times>& times,
                         const std::vector<std::vector<double>>& ready_s, const Step& alone,
                         double item) {
  StepTimeline t;
  std::vector<double> backward, whole;
  for (const Step::Times& s : times) {
    backward.push_back(Seconds(s.backward_end - s.begin).count());
    whole.push_back(Seconds(s.end - s.begin).count());
  }
  t.backward_end_s = median(backward);
  t.step_s = std::max(median(whole), t.backward_end_s);
  const std::vector<Bucket>& buckets = alone.reducer().buckets();
  for (size_t b = 0; b < buckets.size(); ++b) {
    std::vector<double> ready;
    for (const std::vector<double>& step : ready_s) ready.push_back(step[b]);
    t.buckets.push_back(
        {median(ready), item * static_cast<double>(buckets[b].end - buckets[b].begin)});
  }
  return t;
}

void measure(const ScalingConfig& c, Collective& ranks, ScalingRow& row) {
  std::unique_ptr<Feed> feed;
  if (row.data) feed = std::make_unique<Feed>(c, ranks);
  Step full(c, ranks);
  double waited_for_data = 0;
  const auto run_full = [&] {
    const double begin = now_s();
    if (feed) {
      data::Batch batch = feed->next();
      waited_for_data = now_s() - begin;
      full.set_samples(batch.input, batch.target);
    }
    full.run();
    return now_s() - begin;
  };
  for (int64_t i = 0; i < c.warmup; ++i) run_full();
  rusage u{};
  ::getrusage(RUSAGE_SELF, &u);
  row.peak_mib = ranks.all_reduce(static_cast<double>(u.ru_maxrss) / 1024.0, ReduceOp::max, "peak");

  // The same step of a rank by itself: what computing alone takes, beside the other ranks'.
  const auto self = make_self_communicator();
  Step alone(c, *self);
  for (int64_t i = 0; i < c.warmup; ++i) alone.run();
  std::vector<double> step, compute, comm, exposed, data_wait;
  std::vector<Step::Times> times;
  std::vector<std::vector<double>> ready;
  for (int64_t i = 0; i < c.repeats; ++i) {
    ranks.barrier("together");
    double begin = now_s();
    alone.run();
    compute.push_back(now_s() - begin);
    times.push_back(alone.times());
    ready.emplace_back();
    for (const GradientReducer::Launch& launch : alone.reducer().launches())
      ready.back().push_back(Seconds(launch.at - alone.times().begin).count());
    ranks.barrier("together");
    const double waited = full.reducer().counters().wait_s;
    step.push_back(run_full());
    exposed.push_back(full.reducer().counters().wait_s - waited);
    data_wait.push_back(waited_for_data);
    ranks.barrier("together");
    begin = now_s();
    full.reduce_only();
    comm.push_back(now_s() - begin);
  }
  const auto slowest = [&](const std::vector<double>& v, ReduceOp op = ReduceOp::max) {
    return ranks.all_reduce(v, op, "slowest rank");
  };
  for (const double s : slowest(step)) row.step_ms.push_back(1e3 * s);
  row.compute_ms = 1e3 * median(slowest(compute));
  row.comm_ms = ranks.size() > 1 ? 1e3 * median(slowest(comm)) : 0;
  // What nobody caused by being late: of the rank that waits least.
  row.exposed_ms = 1e3 * median(slowest(exposed, ReduceOp::min));
  row.data_wait_ms = 1e3 * median(slowest(data_wait));
  row.timeline = timeline_of(times, ready, alone, c.gradient_type == "f32" ? 4 : 2);
  BORA_CHECK(std::isfinite(full.loss()), "bench_scaling: the loss became ", full.loss());
}

void print(const ScalingRow& r) {
  std::printf("%s: %d rank%s on %d host%s\n", r.setting().c_str(), r.ranks, r.ranks == 1 ? "" : "s",
              r.hosts, r.hosts == 1 ? "" : "s");
  std::printf(
      "step %.1f ms (5 to 95 %%: %.1f to %.1f), %.2f samples/s; peak resident %.0f MiB a "
      "rank\n",
      r.median_ms(), r.spread_ms(0.05), r.spread_ms(0.95), r.samples_per_s(), r.peak_mib);
  if (r.ranks > 1)
    std::printf(
        "computing alone %.1f ms, reductions alone %.1f ms, waiting for reductions %.2f ms "
        "(%.1f %% of the step); step / max(computing, reductions) %.3f\n",
        r.compute_ms, r.comm_ms, r.exposed_ms, 100 * r.exposed_ms / r.median_ms(),
        r.median_ms() / std::max(r.compute_ms, r.comm_ms));
  if (r.data)
    std::printf("waiting for data %.2f ms (%.1f %%)\n", r.data_wait_ms,
                100 * r.data_wait_ms / r.median_ms());
  if (r.predicted_ms > 0)
    std::printf(
        "link: latency %.1f us, %.3f GB/s, %.0f %% of it beside computing threads, %.2f s of CPU "
        "a GB; predicted step %.1f ms, "
        "measured / predicted %.3f\n",
        1e6 * r.link.latency_s, 1e-9 * r.link.bytes_per_s, 100 * r.link.busy_rate,
        1e9 * r.link.cpu_s_a_byte, r.predicted_ms, r.median_ms() / r.predicted_ms);
}

int run(MpiSession& session, int argc, char** argv) {
  ScalingConfig c;
  const ConfigArgs given = config_parse_args(
      c, "bench_scaling", std::vector<std::string>(argv + 1, argv + argc),
      {.about = "Times data-parallel training steps of one job.  docs/clusters.md says more.",
       .positionals = {}});
  if (!given.help.empty()) {
    if (session.rank() == 0) std::fputs(given.help.c_str(), stdout);
    return 0;
  }
  const int n = session.size();
  if (c.global_batch > 0) {
    if (c.global_batch % n != 0)
      throw UsageError(
          detail::join("global_batch=", c.global_batch, " does not divide among ", n, " ranks"));
    c.batch = c.global_batch / n;
  }
  const int threads = apps::set_compute_threads(session.local_size());
  if (!c.data.root.empty()) c.data.shape = c.size;
  CommunicatorOptions options;
  options.all_reduce = all_reduce_algorithm(c.all_reduce);
  const auto ranks = make_communicator(session, options);
  apps::log_launch(session, *ranks, threads);

  ScalingRow row;
  row.ranks = n;
  const std::vector<std::string>& hosts = RankGroup::world()->hosts;
  row.hosts = static_cast<int>(std::set<std::string>(hosts.begin(), hosts.end()).size());
  row.threads = threads;
  row.mode = c.global_batch > 0 ? "strong" : "weak";
  row.data = !c.data.root.empty();
  row.network = c.network;
  row.base = c.model.base;
  row.size = detail::join(c.size);
  row.batch = c.batch;
  row.global_batch = c.batch * n;
  row.precision = c.precision;
  row.accumulate = c.accumulate;
  row.bucket_mib = c.bucket_mib;
  row.gradient_type = c.gradient_type;
  row.all_reduce = c.all_reduce;
  if (c.link && n > 1) row.link = measure_link(*ranks);
  measure(c, *ranks, row);
  if (c.link && n > 1) {
    const bool busy =
        threads * session.local_size() >= apps::this_place(session, threads).host_cores;
    row.predicted_ms = 1e3 * predict_step(row.timeline, n, row.link, busy).step_s;
  }
  if (session.rank() != 0) return 0;
  print(row);
  if (!c.json.empty()) data::JsonlWriter(c.json, data::OpenMode::append).write(to_json(row));
  return 0;
}

}  // namespace
}  // namespace bora::bench

int main(int argc, char** argv) {
  return bora::run_ranks(
      argc, argv, [&](bora::MpiSession& session) { return bora::bench::run(session, argc, argv); });
}
