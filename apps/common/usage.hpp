// SPDX-License-Identifier: Apache-2.0
// UsageMeter: what a run took, over all its ranks: time, memory, energy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/energy.hpp"
#include "core/collective.hpp"
#include "data/jsonl.hpp"

namespace bora::apps {

/// Of one rank.
struct RankUsage {
  std::string host;
  int64_t peak_bytes = 0;         ///< of the process, resident; memory shared with other ranks too
  int64_t peak_tensor_bytes = 0;  ///< handed out by the allocator of the host's memory
  int64_t peak_device_bytes = 0;  ///< the same of the device
  bool has_gpu = false;
  Energy energy{};
};

/// Of the job.
struct JobUsage {
  double wall_s = 0;
  double samples = 0;
  int n_ranks = 1, n_hosts = 1;
  int64_t peak_rank_bytes = 0;  ///< of the largest rank
  int largest_rank = 0;
  int64_t peak_host_bytes = 0;  ///< the largest sum over a host's ranks: an upper bound, since they
                                ///< need not peak at once, and memory they share counts for each
  int64_t peak_tensor_bytes = 0, peak_device_bytes = 0;  ///< largest of all ranks
  double cpu_j = 0, gpu_j = 0;
  /// "counted": all hosts' CPUs and all GPUs; "partly": some; "not readable"; "none".
  std::string energy = "none";
  int cpu_hosts = 0, gpus = 0, all_gpus = 0;  ///< of which energy was counted; GPUs in use
  double samples_per_s() const { return wall_s > 0 ? samples / wall_s : 0; }
  double total_j() const { return cpu_j + gpu_j; }
};

/// Pure: of all ranks in rank order.
JobUsage join_usage(const std::vector<RankUsage>& ranks, double wall_s, double samples);
/// Pure: the lines at the end of a run.  Nothing about energy where none was counted.
std::vector<std::string> usage_lines(const JobUsage& job);
/// Pure: the same for the log that programs read.
data::JsonRecord usage_record(const JobUsage& job);

class UsageMeter {
 public:
  /// Collective: one rank of each host counts its CPUs' energy.  `gpu_uuid`: of this rank's GPU;
  /// empty without one.
  UsageMeter(Collective& ranks, Device device, const std::string& gpu_uuid,
             EnergySources sources = {});
  /// Call it at every step: reads counters every 10 s.
  void sample() { energy_->sample(); }
  /// Collective: since this was made; `samples` of all ranks together.
  JobUsage gather(double samples);
  /// Of all ranks, each once, in the order of their ranks.
  const std::vector<std::string>& hosts() const { return hosts_; }

 private:
  Collective& ranks_;
  Device device_;
  std::string host_;
  std::vector<std::string> hosts_;
  bool has_gpu_;
  double begin_s_;
  std::optional<EnergyMeter> energy_;
};

/// The largest resident size of this process so far, in bytes; 0 where the system does not say.
int64_t peak_resident_bytes();
/// "512 MiB", "1.25 GiB".
std::string bytes_text(int64_t bytes);
/// "950 J", "41.2 kJ (11.4 Wh)".
std::string energy_text(double joules);

}  // namespace bora::apps
