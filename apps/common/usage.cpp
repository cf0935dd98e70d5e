// SPDX-License-Identifier: Apache-2.0
#include "apps/common/usage.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <sstream>

#include "apps/common/progress.hpp"
#include "apps/common/text.hpp"
#include "core/host.hpp"
#include "core/memory_report.hpp"
#include "core/profile.hpp"

namespace bora::apps {
namespace {

using bora::detail::join;

// One line, host last: it may hold anything but a line's end.
std::string encode(const RankUsage& u) {
  std::ostringstream out;
  out.precision(17);
  out << u.peak_bytes << ' ' << u.peak_tensor_bytes << ' ' << u.peak_device_bytes << ' '
      << u.has_gpu << ' ' << static_cast<int>(u.energy.cpu) << ' ' << static_cast<int>(u.energy.gpu)
      << ' ' << u.energy.cpu_j << ' ' << u.energy.gpu_j << ' ' << u.host;
  return out.str();
}

RankUsage decode(const std::string& text) {
  std::istringstream in(text);
  RankUsage u;
  int cpu = 0, gpu = 0;
  in >> u.peak_bytes >> u.peak_tensor_bytes >> u.peak_device_bytes >> u.has_gpu >> cpu >> gpu >>
      u.energy.cpu_j >> u.energy.gpu_j;
  BORA_CHECK(in.good(), "no usage of a rank: '", text, "'");
  u.energy.cpu = static_cast<Counter>(cpu);
  u.energy.gpu = static_cast<Counter>(gpu);
  std::getline(in >> std::ws, u.host);
  return u;
}

}  // namespace

int64_t peak_resident_bytes() {
  // getrusage() would also count the program that was this process before (its launcher).
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;  // in kB
  return 0;
}

std::string bytes_text(int64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1024 ? fixed(mib, mib < 10 ? 1 : 0) + " MiB" : fixed(mib / 1024, 2) + " GiB";
}

std::string energy_text(double joules) {
  const std::string wh = " (" + brief(joules / 3600) + " Wh)";
  if (joules < 1e3) return brief(joules) + " J";
  if (joules < 1e6) return brief(joules / 1e3) + " kJ" + wh;
  if (joules < 3.6e6) return brief(joules / 1e6) + " MJ" + wh;
  return brief(joules / 1e6) + " MJ (" + brief(joules / 3.6e6) + " kWh)";
}

JobUsage join_usage(const std::vector<RankUsage>& ranks, double wall_s, double samples) {
  JobUsage job;
  job.wall_s = wall_s;
  job.samples = samples;
  job.n_ranks = static_cast<int>(ranks.size());
  std::map<std::string, int64_t> by_host;
  int not_readable = 0;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const RankUsage& u = ranks[r];
    if (u.peak_bytes > job.peak_rank_bytes) {
      job.peak_rank_bytes = u.peak_bytes;
      job.largest_rank = static_cast<int>(r);
    }
    by_host[u.host] += u.peak_bytes;
    job.peak_tensor_bytes = std::max(job.peak_tensor_bytes, u.peak_tensor_bytes);
    job.peak_device_bytes = std::max(job.peak_device_bytes, u.peak_device_bytes);
    job.all_gpus += u.has_gpu;
    if (u.energy.cpu == Counter::counted) {
      ++job.cpu_hosts;
      job.cpu_j += u.energy.cpu_j;
    }
    if (u.energy.gpu == Counter::counted) {
      ++job.gpus;
      job.gpu_j += u.energy.gpu_j;
    }
    not_readable += u.energy.cpu == Counter::not_readable || u.energy.gpu == Counter::not_readable;
  }
  job.n_hosts = static_cast<int>(by_host.size());
  for (const auto& [host, bytes] : by_host)
    job.peak_host_bytes = std::max(job.peak_host_bytes, bytes);
  if (job.cpu_hosts == job.n_hosts && job.gpus == job.all_gpus)
    job.energy = "counted";
  else if (job.cpu_hosts > 0 || job.gpus > 0)
    job.energy = "partly";
  else if (not_readable > 0)
    job.energy = "not readable";
  return job;
}

std::vector<std::string> usage_lines(const JobUsage& job) {
  std::vector<std::string> lines;
  lines.push_back(join("time: ", duration_text(job.wall_s), ", ", brief(job.samples_per_s()),
                       " samples/s from start to end, validation and saving included"));
  std::string memory = "memory: at most " + bytes_text(job.peak_rank_bytes);
  if (job.n_ranks > 1)
    memory +=
        join(" a rank (rank ", job.largest_rank, "), ", bytes_text(job.peak_host_bytes), " a host");
  memory += ", of it tensors " + bytes_text(job.peak_tensor_bytes);
  if (job.peak_device_bytes > 0) memory += "; on a device " + bytes_text(job.peak_device_bytes);
  lines.push_back(memory);
  if (job.cpu_hosts == 0 && job.gpus == 0) return lines;
  std::string energy = "energy: " + energy_text(job.total_j()) + ":";
  if (job.cpu_hosts > 0)
    energy += join(" CPUs and memory of ", job.cpu_hosts,
                   job.cpu_hosts < job.n_hosts ? join(" of ", job.n_hosts) : std::string(),
                   job.n_hosts > 1 ? " hosts " : " host ", energy_text(job.cpu_j));
  if (job.gpus > 0)
    energy += join(job.cpu_hosts > 0 ? ", " : " ", job.gpus,
                   job.gpus < job.all_gpus ? join(" of ", job.all_gpus) : std::string(),
                   job.all_gpus > 1 ? " GPUs " : " GPU ", energy_text(job.gpu_j));
  if (job.samples > 0) energy += "; " + brief(job.total_j() / job.samples) + " J a sample";
  lines.push_back(energy + ". Whatever else ran there is counted, too");
  return lines;
}

data::JsonRecord usage_record(const JobUsage& job) {
  data::JsonRecord out{{"wall_s", job.wall_s},
                       {"samples", static_cast<int64_t>(job.samples)},
                       {"samples_per_s", job.samples_per_s()},
                       {"peak_rank_bytes", job.peak_rank_bytes},
                       {"peak_host_bytes", job.peak_host_bytes},
                       {"peak_tensor_bytes", job.peak_tensor_bytes},
                       {"peak_device_bytes", job.peak_device_bytes}};
  out.emplace_back("energy", job.energy);
  if (job.cpu_hosts > 0) out.emplace_back("energy_cpu_j", job.cpu_j);
  if (job.gpus > 0) out.emplace_back("energy_gpu_j", job.gpu_j);
  if (job.cpu_hosts + job.gpus > 0 && job.samples > 0)
    out.emplace_back("energy_j_per_sample", job.total_j() / job.samples);
  return out;
}

UsageMeter::UsageMeter(Collective& ranks, Device device, const std::string& gpu_uuid,
                       EnergySources sources)
    : ranks_(ranks),
      device_(device),
      host_(host_name()),
      has_gpu_(!gpu_uuid.empty()),
      begin_s_(now_s()) {
  const std::vector<std::string> of_ranks = ranks.all_gather_text(host_, "hosts of the ranks");
  for (const std::string& host : of_ranks)
    if (std::find(hosts_.begin(), hosts_.end(), host) == hosts_.end()) hosts_.push_back(host);
  // The first rank of a host counts its CPUs.
  const auto first = std::find(of_ranks.begin(), of_ranks.end(), host_);
  if (first - of_ranks.begin() != ranks.rank()) sources.powercap.clear();
  sources.gpu_uuid = gpu_uuid;
  energy_.emplace(std::move(sources));
}

JobUsage UsageMeter::gather(double samples) {
  RankUsage mine{.host = host_,
                 .peak_bytes = peak_resident_bytes(),
                 .peak_tensor_bytes = memory_of(cpu()).peak,
                 .peak_device_bytes = device_ == cpu() ? 0 : memory_of(device_).peak,
                 .has_gpu = has_gpu_,
                 .energy = energy_->read()};
  std::vector<RankUsage> all;
  for (const std::string& text : ranks_.all_gather_text(encode(mine), "what the ranks used"))
    all.push_back(decode(text));
  return join_usage(all, now_s() - begin_s_, samples);
}

}  // namespace bora::apps
