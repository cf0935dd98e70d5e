// SPDX-License-Identifier: Apache-2.0
// bora_launch: starts the ranks of a program on this host, without MPI.
#include <cstdio>
#include <string>
#include <vector>

#include "apps/launch/options.hpp"
#include "apps/launch/workers.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

int main(int argc, char** argv) {
  try {
    const bora::launch::Options options =
        bora::launch::parse_options(std::vector<std::string>(argv + 1, argv + argc));
    if (options.help) {
      std::fputs(bora::launch::kUsage, stdout);
      return 0;
    }
    return bora::launch::Workers(options).run();
  } catch (const bora::UsageError& e) {
    bora::log_error(e.what());
    return 2;
  } catch (const std::exception& e) {
    bora::log_error(e.what());
    return 1;
  }
}
