// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a job are: the block at the start of every run, and its warnings.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "comm/mpi.hpp"
#include "core/collective.hpp"

namespace bora::apps {

/// What one rank knows about its place.
struct RankPlace {
  int rank = 0, local_rank = 0;
  std::string host;
  int threads = 1;             ///< that compute
  int host_cores = 1;          ///< online on this host
  std::vector<int> cpus;       ///< of the affinity mask, ascending
  std::string device = "cpu";  ///< what computes, and why (DeviceChoice::text)
  std::string build;           ///< the commit it was built from
  /// Network interfaces that are up, without loopback: name and IPv4 address.
  std::vector<std::pair<std::string, std::string>> interfaces;
};

/// This process; `threads` as set by set_compute_threads(), `device`: what computes.
RankPlace this_place(const MpiSession& session, int threads, const std::string& device = "cpu");

/// One line of text and back.  Error if the text is none.
std::string encode(const RankPlace& place);
RankPlace decode_place(const std::string& text);

struct LaunchReport {
  std::vector<std::string> lines, warnings;
};
/// Pure: of all ranks, in rank order.  Hosts that are alike are told once; a job of many kinds of
/// hosts is cut after `kMostHosts` of them.
LaunchReport launch_report(const std::vector<RankPlace>& places);
inline constexpr int kMostHosts = 16;

/// Collective: the report on rank 0, an empty one on the others.
LaunchReport gather_launch(const MpiSession& session, Collective& ranks, int threads,
                           const std::string& device = "cpu");
/// Collective: rank 0 logs the block and its warnings.
void log_launch(const MpiSession& session, Collective& ranks, int threads,
                const std::string& device = "cpu");

/// "0-3,8" of ascending numbers; "none" of none.
std::string number_ranges(const std::vector<int>& numbers);

}  // namespace bora::apps
