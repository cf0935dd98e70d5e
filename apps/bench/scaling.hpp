// SPDX-License-Identifier: Apache-2.0
// What bench_scaling measures of one job, and the line it leaves for scaling_report.
#pragma once

#include <string>
#include <vector>

#include "apps/bench/network_model.hpp"
#include "data/jsonl.hpp"

namespace bora::bench {

/// Linear between the values' ranks; p from 0 to 1.  Error for no values.
double percentile(std::vector<double> values, double p);

/// One job: a number of ranks, a setting, and what its steps took.
struct ScalingRow {
  // What was run.
  int ranks = 1, hosts = 1, threads = 1;
  std::string mode = "weak";  ///< weak: `batch` samples a rank; strong: `global_batch` in all
  bool data = false;          ///< samples came from files
  std::string network, precision, all_reduce, gradient_type = "f32";
  int64_t base = 0, batch = 1, global_batch = 1, accumulate = 1, bucket_mib = 0;
  std::string size;
  // What it took, milliseconds; medians over steps of the slowest rank of each.
  std::vector<double> step_ms;  ///< every counted step
  double compute_ms = 0;        ///< the same work without reductions
  double comm_ms = 0;           ///< the reductions alone
  double exposed_ms = 0;        ///< waiting for reductions after backward
  double data_wait_ms = 0;
  double peak_mib = 0;      ///< resident, largest of all ranks
  double predicted_ms = 0;  ///< by the network model; 0: not asked for
  Link link;
  StepTimeline timeline;

  double median_ms() const;
  double spread_ms(double p) const;  ///< percentile, 0 to 1
  double samples_per_s() const;
  /// Everything but the number of ranks and what follows from it: rows of one study have one.
  std::string setting() const;
};

data::JsonRecord to_json(const ScalingRow& row);
/// Throws Error naming a missing or wrong key.
ScalingRow scaling_row(const data::JsonRecord& record);

/// A row of the study: the median over repeated jobs, and its efficiency against one rank.
struct StudyRow {
  ScalingRow job;
  int repeats = 1;
  double step_ms = 0, low_ms = 0, high_ms = 0;  ///< median over jobs of medians, least and largest
  double samples_per_s = 0;
  double efficiency = 0;     ///< 0: there is no job of one rank to compare with
  double exposed_share = 0;  ///< of the step
};
/// Joins repeated jobs, ordered by setting and ranks.
std::vector<StudyRow> study_of(const std::vector<ScalingRow>& jobs);

}  // namespace bora::bench
