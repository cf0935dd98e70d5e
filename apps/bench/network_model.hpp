// SPDX-License-Identifier: Apache-2.0
// A model of a data-parallel step over a network: when each bucket is reduced, when the step ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bora::bench {

/// A network between ranks, as far as all-reductions see it.
struct Link {
  double latency_s = 0;    ///< of one round between two ranks
  double bytes_per_s = 0;  ///< each rank can send while it receives as much
  /// CPU time that moving and adding one byte costs a rank: it is taken from computing threads
  /// where all cores compute.
  double cpu_s_a_byte = 0;
  /// Share of its speed that the network has while all cores compute: who moves data must wait for
  /// a core.  1: none is lost.
  double busy_rate = 1;
};

/// How the data of one all-reduction of `bytes` goes round n ranks: rounds that must follow each
/// other, and bytes that a rank sends.
enum class ReduceWay { exchange, ring };
double rounds(ReduceWay way, int n);
/// 2 (n - 1) / n of the bytes, for both ways.
double bytes_a_rank(double bytes, int n);
/// The way that `auto` takes with f32 between hosts of one rank each (comm/algorithm.hpp).
ReduceWay automatic_way(double bytes);

/// Seconds of one all-reduction by itself; 0 for one rank.  The ranks' agreement on what they are
/// about to do comes first: one exchange of records, log2(n) rounds.
double all_reduce_s(double bytes, int n, const Link& link, ReduceWay way);

/// One measurement of an all-reduction over the link.
struct ReduceTime {
  double bytes = 0, seconds = 0;
  ReduceWay way = ReduceWay::exchange;
};
/// The link that explains `times`, taken on n ranks: bandwidth by the two largest sizes, which no
/// buffer or burst on the way can hold, latency by what the smallest took beyond it.  Throws Error
/// with fewer than two sizes, or if the largest took no longer than the next.
Link fit_link(std::vector<ReduceTime> times, int n);

/// A step as one rank computes it, without reductions.  Seconds from its begin.
struct StepTimeline {
  double backward_end_s = 0;
  double step_s = 0;  ///< with what follows: norm, clipping, update
  struct Bucket {
    double ready_s = 0;
    double bytes = 0;
  };
  std::vector<Bucket> buckets;  ///< in the order in which they are reduced
};

struct StepPrediction {
  double step_s = 0;
  double exposed_s = 0;   ///< of it, waiting for reductions after backward
  double comm_s = 0;      ///< all reductions by themselves
  double compute_s = 0;   ///< the step without reductions
  double efficiency = 0;  ///< weak scaling: compute_s / step_s
  std::vector<double> bucket_end_s;
};
/// Reductions follow each other in order, each begins when its bucket is ready and the one before
/// it is done; what follows backward begins when all are.  `busy_cores`: computing threads occupy
/// all cores, so that the link's CPU time delays them, and they slow the link (busy_rate) while
/// backward lasts.
StepPrediction predict_step(const StepTimeline& timeline, int n, const Link& link,
                            bool busy_cores = false);

/// Scaling efficiency.  Weak: each rank keeps its work, t(1) / t(n).  Strong: the work is shared,
/// t(1) / (n t(n)).  Throws Error unless times and n are positive.
double weak_efficiency(double t1, double tn);
double strong_efficiency(double t1, double tn, int n);

}  // namespace bora::bench
