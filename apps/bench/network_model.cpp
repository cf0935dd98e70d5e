// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/network_model.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace bora::bench {

double rounds(ReduceWay way, int n) {
  if (n <= 1) return 0;
  return way == ReduceWay::exchange ? 2 : 2.0 * (n - 1);
}

double bytes_a_rank(double bytes, int n) { return n <= 1 ? 0 : 2.0 * (n - 1) / n * bytes; }

ReduceWay automatic_way(double bytes) {
  return bytes >= 1048576.0 ? ReduceWay::ring : ReduceWay::exchange;
}

namespace {
double agreement_rounds(int n) { return n <= 1 ? 0 : std::ceil(std::log2(n)); }
}  // namespace

double all_reduce_s(double bytes, int n, const Link& link, ReduceWay way) {
  if (n <= 1) return 0;
  return (agreement_rounds(n) + rounds(way, n)) * link.latency_s +
         bytes_a_rank(bytes, n) / link.bytes_per_s;
}

Link fit_link(std::vector<ReduceTime> times, int n) {
  std::sort(times.begin(), times.end(),
            [](const ReduceTime& a, const ReduceTime& b) { return a.bytes < b.bytes; });
  for (const ReduceTime& t : times)
    BORA_CHECK(t.bytes > 0 && t.seconds > 0, "fit_link: ", t.bytes, " bytes in ", t.seconds,
               " s, wanted positive numbers");
  BORA_CHECK(n > 1 && times.size() >= 2 && times.front().bytes < times.back().bytes,
             "fit_link: ", times.size(), " times on ", n,
             " ranks, wanted at least 2 sizes and 2 ranks");
  const ReduceTime &small = times.front(), &large = times.back(), &next = times[times.size() - 2];
  const double inverse =
      (large.seconds - next.seconds) / (bytes_a_rank(large.bytes, n) - bytes_a_rank(next.bytes, n));
  BORA_CHECK(inverse > 0, "fit_link: ", large.bytes, " bytes took no longer than ", next.bytes,
             ": no bandwidth can be seen");
  const double rest_s = small.seconds - bytes_a_rank(small.bytes, n) * inverse;
  return {.latency_s = std::max(0.0, rest_s / (agreement_rounds(n) + rounds(small.way, n))),
          .bytes_per_s = 1.0 / inverse};
}

StepPrediction predict_step(const StepTimeline& timeline, int n, const Link& link,
                            bool busy_cores) {
  BORA_CHECK(timeline.backward_end_s > 0 && timeline.step_s >= timeline.backward_end_s,
             "predict_step: backward ends after ", timeline.backward_end_s, " s of a step of ",
             timeline.step_s, " s");
  StepPrediction p;
  p.compute_s = timeline.step_s;
  double total_bytes = 0;
  for (const StepTimeline::Bucket& b : timeline.buckets) total_bytes += bytes_a_rank(b.bytes, n);
  const double stolen = busy_cores ? total_bytes * link.cpu_s_a_byte : 0;
  // What is taken from computing delays backward evenly.
  const double stretch = 1 + stolen / timeline.backward_end_s;
  const double backward_end_s = timeline.backward_end_s * stretch;
  const double rate = busy_cores ? link.busy_rate : 1;
  double free_s = 0;
  for (const StepTimeline::Bucket& b : timeline.buckets) {
    const double one = all_reduce_s(b.bytes, n, link, automatic_way(b.bytes));
    const double begin_s = std::max(free_s, std::min(b.ready_s, timeline.backward_end_s) * stretch);
    const double slow_s = std::max(0.0, backward_end_s - begin_s);  // until backward has ended
    free_s = slow_s * rate >= one ? begin_s + one / rate : begin_s + slow_s + one - slow_s * rate;
    p.comm_s += one;
    p.bucket_end_s.push_back(free_s);
  }
  p.exposed_s = std::max(0.0, free_s - backward_end_s);
  p.step_s = backward_end_s + p.exposed_s + (timeline.step_s - timeline.backward_end_s);
  p.efficiency = p.compute_s / p.step_s;
  return p;
}

double weak_efficiency(double t1, double tn) {
  BORA_CHECK(t1 > 0 && tn > 0, "weak_efficiency: times ", t1, " and ", tn, ", wanted positive");
  return t1 / tn;
}

double strong_efficiency(double t1, double tn, int n) {
  BORA_CHECK(t1 > 0 && tn > 0 && n > 0, "strong_efficiency: times ", t1, " and ", tn, " on ", n,
             " ranks, wanted positive");
  return t1 / (n * tn);
}

}  // namespace bora::bench
