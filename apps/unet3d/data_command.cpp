// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "apps/unet3d/commands.hpp"
#include "apps/unet3d/data_commands.hpp"
#include "core/error.hpp"

namespace bora::unet3d {
namespace {

constexpr const char* kUsage =
    "usage: unet3d data <command> [FILE...] [--config FILE] [--key=value ...]\n"
    "\n"
    "  inspect    what files hold: fields, axes, units, orientation, chunks, values\n"
    "  check      look into all files of a data set, as training does before its first step\n"
    "  convert    a data set in files that random patches are read from fast\n"
    "  stats      mean, spread, percentiles, classes of a part; what normalisation would suit\n"
    "  split      which case trains, validates and tests\n"
    "\n"
    "unet3d data <command> --help lists the keys of a command. check, stats and split take all "
    "keys of unet3d train,\n"
    "so that its --config describes the data set to them, too. Under mpirun ranks share the "
    "work.\n";

}  // namespace

int data_command(MpiSession& session, const std::vector<std::string>& all_args) {
  std::vector<std::string> args = all_args;
  const std::string command = args.empty() ? "" : args.front();
  if (!args.empty()) args.erase(args.begin());
  if (command == "inspect") return data_inspect_command(session, args);
  if (command == "check") return data_check_command(session, args);
  if (command == "convert") return data_convert_command(session, args);
  if (command == "stats") return data_stats_command(session, args);
  if (command == "split") return data_split_command(session, args);
  if (command == "--help" || command == "-h" || command == "help") {
    if (session.rank() == 0) std::fputs(kUsage, stdout);
    return 0;
  }
  throw UsageError(
      (command.empty() ? std::string("data: no command")
                       : "data: unknown command '" + command + "'") +
      ": wanted inspect, check, convert, stats or split (unet3d data --help says more)");
}

}  // namespace bora::unet3d
