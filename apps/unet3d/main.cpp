// SPDX-License-Identifier: Apache-2.0
// unet3d: train, evaluate, predict, export, import, report, diagnose, data, info.
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/stop.hpp"
#include "apps/unet3d/commands.hpp"
#include "comm/mpi.hpp"
#include "core/error.hpp"

namespace {

constexpr const char* kUsage =
    "usage: unet3d <command> [--config FILE] [--key=value ...]\n"
    "\n"
    "  train      train a 3-D U-Net on wind cases; --resume goes on from the last checkpoint\n"
    "  evaluate   score a checkpoint on cases it never saw, beside trivial predictors\n"
    "  predict    wind field from a building mask, to NetCDF, with a picture on request\n"
    "  export     a checkpoint's weights as safetensors, or its network as ONNX\n"
    "  import     a checkpoint of such weights\n"
    "  report     the page of a run, made again from its folder\n"
    "  diagnose   what a job finds where it runs: hosts, network, memory, data\n"
    "  data       look into data: inspect, check, convert, stats, split\n"
    "  info       this build, its machine, its ranks, the network\n"
    "\n"
    "unet3d <command> --help lists the keys of a command. Under mpirun or srun all ranks work "
    "together;\n"
    "without a launcher the same program runs alone.\n";

}  // namespace

int main(int argc, char** argv) {
  // Before anything that takes time: a job's signal may come while it starts.
  if (argc > 1 && std::string_view(argv[1]) == "train") bora::apps::catch_stop_signals();
  return bora::run_ranks(argc, argv, [&](bora::MpiSession& session) {
    using namespace bora::unet3d;
    std::vector<std::string> args(argv + 1, argv + argc);
    const std::string command = args.empty() ? "" : args.front();
    if (!args.empty()) args.erase(args.begin());
    if (command == "train") return train_command(session, args);
    if (command == "evaluate") return evaluate_command(session, args);
    if (command == "predict") return predict_command(session, args);
    if (command == "export") return export_command(session, args);
    if (command == "import") return import_command(session, args);
    if (command == "report") return report_command(session, args);
    if (command == "diagnose") return diagnose_command(session, args);
    if (command == "data") return data_command(session, args);
    if (command == "info") return info_command(session, args);
    if (command == "--help" || command == "-h" || command == "help") {
      if (session.rank() == 0) std::fputs(kUsage, stdout);
      return 0;
    }
    throw bora::UsageError(
        (command.empty() ? std::string("no command") : "unknown command '" + command + "'") +
        ": wanted train, evaluate, predict, export, import, report, diagnose, data or info (unet3d "
        "--help says more)");
  });
}
