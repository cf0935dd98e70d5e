// SPDX-License-Identifier: Apache-2.0
// --help of a program that every rank has been started with.
#pragma once

#include <cstdio>

#include "comm/mpi.hpp"
#include "core/config.hpp"

namespace bora::apps {

/// Whether --help was given; rank 0 has then printed it, and the program ends well.
inline bool print_help(const MpiSession& session, const ConfigArgs& given) {
  if (given.help.empty()) return false;
  if (session.rank() == 0) std::fputs(given.help.c_str(), stdout);
  return true;
}

}  // namespace bora::apps
