// SPDX-License-Identifier: Apache-2.0
// The block that a run begins with, out of what the ranks say about their places.
#include <algorithm>
#include <map>
#include <set>

#include "apps/common/place.hpp"
#include "core/error.hpp"

namespace bora::apps {

using detail::join;

std::string number_ranges(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (!text.empty()) text += ",";
    text += std::to_string(numbers[i]);
    if (end - i > 1) text += join("-", numbers[end - 1]);
    i = end;
  }
  return text.empty() ? "none" : text;
}

namespace {

/// The ranks of a host, in rank order.
using Host = std::vector<const RankPlace*>;

std::string plural(size_t n, const char* what) { return join(n, " ", what, n == 1 ? "" : "s"); }

std::vector<int> union_of_cpus(const Host& host) {
  std::set<int> cpus;
  for (const RankPlace* p : host) cpus.insert(p->cpus.begin(), p->cpus.end());
  return {cpus.begin(), cpus.end()};
}

int threads_of(const Host& host) {
  int threads = 0;
  for (const RankPlace* p : host) threads += p->threads;
  return threads;
}

/// Everything about a host but its name, its ranks' numbers and its addresses: hosts with the same
/// text are alike.
std::string layout_of(const Host& host) {
  std::string text = join(plural(host.size(), "rank"), " x ");
  const bool even = std::all_of(host.begin(), host.end(), [&](const RankPlace* p) {
    return p->threads == host.front()->threads;
  });
  if (even) {
    text += plural(static_cast<size_t>(host.front()->threads), "thread");
  } else {
    text += "(";
    for (size_t i = 0; i < host.size(); ++i) text += join(i ? ", " : "", host[i]->threads);
    text += ") threads";
  }
  const bool shared = std::all_of(
      host.begin(), host.end(), [&](const RankPlace* p) { return p->cpus == host.front()->cpus; });
  text += " on ";
  if (shared) {
    text += join("cores ", number_ranges(host.front()->cpus));
  } else {
    for (size_t i = 0; i < host.size(); ++i)
      text += join(i ? "; " : "cores ", number_ranges(host[i]->cpus));
  }
  text += join(" of ", host.front()->host_cores);
  std::set<std::string> devices;
  for (const RankPlace* p : host) devices.insert(p->device);
  text += ", device ";
  for (const std::string& d : devices) text += (d == *devices.begin() ? "" : ", ") + d;
  return text;
}

void warn_about_host(const std::string& name, const Host& host,
                     std::vector<std::string>& warnings) {
  const std::vector<int> cores = union_of_cpus(host);
  const int n_cores = static_cast<int>(cores.size()), threads = threads_of(host);
  for (const RankPlace* p : host) {
    const int mask = static_cast<int>(p->cpus.size());
    if (p->threads > mask && host.size() == 1)
      return warnings.push_back(
          join("host ", name, ", rank ", p->rank, ": ", p->threads, " threads on ", mask,
               " cores of the affinity mask: unset OMP_NUM_THREADS or give the rank more cores"));
  }
  if (threads > n_cores)
    return warnings.push_back(
        join("host ", name, " is oversubscribed: ", host.size(), " ranks with ", threads,
             " threads share ", n_cores, " cores (", number_ranges(cores),
             "); start fewer ranks a host, set OMP_NUM_THREADS, or give them more cores"));
  const bool idle = n_cores * 2 <= host.front()->host_cores && threads <= n_cores;
  const bool single =
      std::all_of(host.begin(), host.end(), [](const RankPlace* p) { return p->cpus.size() == 1; });
  if (idle && single)
    warnings.push_back(
        join("host ", name, ": each rank is bound to one core, ", n_cores, " of ",
             host.front()->host_cores,
             " are used; mpirun binds so unless told: --map-by slot:PE=N gives a rank N cores, "
             "--bind-to none all of them (srun: --cpus-per-task=N)"));
}

}  // namespace

LaunchReport launch_report(const std::vector<RankPlace>& places) {
  LaunchReport report;
  std::vector<std::pair<std::string, Host>> hosts;  // by first rank
  std::map<std::string, size_t> index;
  for (const RankPlace& p : places) {
    const auto [at, is_new] = index.emplace(p.host, hosts.size());
    if (is_new) hosts.emplace_back(p.host, Host{});
    hosts[at->second].second.push_back(&p);
  }
  int threads = 0;
  for (const auto& [name, host] : hosts) threads += threads_of(host);
  report.lines.push_back(join("job: ", plural(places.size(), "rank"), " on ",
                              plural(hosts.size(), "host"), ", ",
                              plural(static_cast<size_t>(threads), "thread")));

  // Hosts that are alike, together.
  std::vector<std::pair<std::string, std::vector<size_t>>> kinds;
  for (size_t i = 0; i < hosts.size(); ++i) {
    const std::string layout = layout_of(hosts[i].second);
    auto kind =
        std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.first == layout; });
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {layout, {}});
    kind->second.push_back(i);
  }
  for (size_t k = 0; k < kinds.size() && k < kMostHosts; ++k) {
    const auto& [layout, members] = kinds[k];
    const auto& [name, host] = hosts[members.front()];
    std::vector<int> ranks;
    for (const size_t m : members)
      for (const RankPlace* p : hosts[m].second) ranks.push_back(p->rank);
    std::sort(ranks.begin(), ranks.end());
    std::string who = "host " + name;
    if (members.size() > 1)
      who = join("hosts ", name, members.size() == 2 ? " and " : " to ",
                 hosts[members.back()].first, " (", members.size(), ")");
    std::string nets;
    for (const auto& [net, address] : host.front()->interfaces)
      nets += join(nets.empty() ? "; network " : ", ", net,
                   members.size() > 1 ? std::string() : " " + address);
    report.lines.push_back(join("  ", who, ": ", ranks.size() == 1 ? "rank " : "ranks ",
                                number_ranges(ranks), "; ", members.size() > 1 ? "each " : "",
                                layout, nets));
  }
  if (kinds.size() > kMostHosts)
    report.lines.push_back(join("  and ", kinds.size() - kMostHosts, " other kinds of hosts"));

  for (const auto& [name, host] : hosts) {
    warn_about_host(name, host, report.warnings);
    if (report.warnings.size() >= 4) break;  // the others will be alike
  }
  for (const RankPlace& p : places)
    if (p.build != places.front().build) {
      report.warnings.push_back(join("rank ", p.rank, " on host ", p.host, " runs build ", p.build,
                                     ", rank 0 runs ", places.front().build,
                                     ": all ranks should start the same program"));
      break;
    }
  for (const RankPlace& p : places)
    if (p.threads != places.front().threads) {
      report.warnings.push_back(join("rank ", p.rank, " on host ", p.host, " computes with ",
                                     p.threads, " threads, rank 0 with ", places.front().threads,
                                     ": every step waits for the rank with the fewest"));
      break;
    }
  return report;
}

}  // namespace bora::apps
