// SPDX-License-Identifier: Apache-2.0
// What bora_launch is asked to do.
#pragma once

#include <string>
#include <vector>

#include "comm/launcher.hpp"

namespace bora::launch {

struct Options {
  int workers = 0;          ///< on this host
  int nodes = 1, node = 0;  ///< hosts, and which of them this is
  std::string master_host;  ///< of rank 0; empty: this host, a free port
  int master_port = kDefaultMasterPort;
  std::string interface;  ///< network between the ranks; empty: found out
  double grace_s = 5;     ///< between SIGTERM and SIGKILL
  bool help = false;
  std::vector<std::string> command;
};

extern const char* const kUsage;

/// Options up to the first word that is none; the rest is the command.  UsageError that names what
/// is wrong or missing.
Options parse_options(const std::vector<std::string>& arguments);

}  // namespace bora::launch
