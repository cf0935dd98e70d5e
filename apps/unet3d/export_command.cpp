// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <filesystem>

#include "apps/unet3d/commands.hpp"
#include "apps/unet3d/exchange.hpp"
#include "apps/unet3d/setup.hpp"
#include "apps/unet3d/start_state.hpp"
#include "comm/communicator.hpp"
#include "core/log.hpp"

namespace bora::unet3d {
namespace {

struct ExportConfig {
  std::string checkpoint;
  std::string output = "model.safetensors";
  bool overwrite = false;
  static constexpr auto fields() {
    return std::tuple{
        field("checkpoint", &ExportConfig::checkpoint, "the network: best.h5 or last.h5 of a run"),
        field("output", &ExportConfig::output, "the file to write"),
        field("overwrite", &ExportConfig::overwrite, "replace the file if there is one")};
  }
};

}  // namespace

int export_command(MpiSession& session, const std::vector<std::string>& args) {
  ExportConfig config;
  const ConfigArgs given = config_parse_args(
      config, "unet3d export", args,
      {.about = "Writes the weights of a checkpoint as safetensors, with the names and layouts of "
                "the same network in PyTorch (docs/exchanging-weights.md).",
       .positionals = {}});
  if (!given.help.empty()) {
    if (session.rank() == 0) std::fputs(given.help.c_str(), stdout);
    return 0;
  }
  if (config.checkpoint.empty())
    throw UsageError("export: --checkpoint=FILE is wanted (best.h5 of a run)");
  const std::unique_ptr<Collective> ranks = make_communicator(session);
  ranks->agree("exporting " + config.checkpoint, [&] {
    if (session.rank() != 0) return;
    std::error_code none;
    if (std::filesystem::equivalent(config.checkpoint, config.output, none))
      throw UsageError("export: the output " + config.output + " is the checkpoint itself");
    if (!config.overwrite && std::filesystem::exists(config.output))
      throw UsageError("export: " + config.output + " exists already; --overwrite replaces it");
    const TrainedModel trained = load_trained(config.checkpoint);
    const std::vector<data::NamedTensor> tensors = torch_tensors(*trained.model);
    data::write_safetensors(config.output, tensors,
                            metadata_of(start_state_of_checkpoint(config.checkpoint)));
    log_info("exported ", config.checkpoint, " (", trained.updates, " updates): ", tensors.size(),
             " tensors, ", nn::parameter_count(*trained.model), " parameters, to ", config.output);
  });
  return 0;
}

}  // namespace bora::unet3d
