// SPDX-License-Identifier: Apache-2.0
// The plan of a run as people read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/train/dry_run.hpp"

namespace bora::train {

/// What the ranks of a host (or one device) need, and what is free there.
struct HostMemory {
  std::string host;
  int64_t need = 0, free = -1;
  int n_ranks = 1;
  std::string reason;  ///< what sets `free`
};

struct PlanFacts {
  Task& task;
  const RunConfig& config;
  const apps::WindowPlan& plan;
  const DryRun& forecast;
  const std::vector<HostMemory>& places;
  const std::string& output;  ///< of check_output()
  Dims3 full;
  int64_t samples;   ///< of a micro-step
  int64_t n_looked;  ///< cases whose extents were looked at
  int n_ranks;
};
/// Lines, each with its end.
std::string plan_text(const PlanFacts& facts);

/// "3.21 GiB", "82.8 MiB", "14 KiB".
std::string bytes_text(int64_t bytes);

/// Checkpoints that stay beside last, the one before, and best.
int64_t kept_checkpoints(const OutputConfig& output);

}  // namespace bora::train
