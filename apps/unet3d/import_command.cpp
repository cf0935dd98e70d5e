// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "apps/common/help.hpp"
#include "apps/unet3d/commands.hpp"
#include "apps/unet3d/exchange.hpp"
#include "apps/unet3d/setup.hpp"
#include "apps/unet3d/start_state.hpp"
#include "comm/communicator.hpp"
#include "core/log.hpp"

namespace bora::unet3d {
namespace {

struct ImportConfig {
  std::string weights;
  std::string like;
  std::string output;
  bool overwrite = false;
  static constexpr auto fields() {
    return std::tuple{
        field("weights", &ImportConfig::weights,
              "safetensors file with the names and layouts of PyTorch's module"),
        field("like", &ImportConfig::like,
              "where settings, split and normalisation come from: a checkpoint, or the settings of "
              "a run (a name ending in .toml), whose data is then read; empty: what the weights' "
              "file says itself, if it was exported from a checkpoint"),
        field("output", &ImportConfig::output,
              "the checkpoint to write; named last.h5 in a folder of its own, train --resume "
              "begins with it"),
        field("overwrite", &ImportConfig::overwrite, "replace the file if there is one")};
  }
};

void check(const ImportConfig& c) {
  if (c.weights.empty()) throw UsageError("import: --weights=FILE.safetensors is wanted");
  if (c.output.empty()) throw UsageError("import: --output=FILE.h5 is wanted");
}

StartState start_state(const ImportConfig& c, Collective& ranks) {
  if (c.like.ends_with(".toml")) return start_state_of_settings(c.like, ranks);
  StartState state;
  ranks.agree("importing " + c.weights, [&] {
    if (!c.like.empty()) {
      state = start_state_of_checkpoint(c.like);
      return;
    }
    const data::SafetensorsReader file(c.weights);
    if (!has_start_state(file))
      throw UsageError("import: " + c.weights +
                       " does not say what network it is of, with what normalisation (it was not "
                       "exported by unet3d): give a checkpoint or the settings of a run with "
                       "--like=FILE");
    state = start_state_of_metadata(file);
  });
  return state;
}

}  // namespace

int import_command(MpiSession& session, const std::vector<std::string>& args) {
  ImportConfig config;
  const ConfigArgs given = config_parse_args(
      config, "unet3d import", args,
      {.about = "Makes a checkpoint of weights in a safetensors file, for predict, evaluate, and "
                "as the beginning of a training run (docs/exchanging-weights.md).",
       .positionals = {}});
  if (apps::print_help(session, given)) return 0;
  check(config);
  const std::unique_ptr<Collective> ranks = make_communicator(session);
  StartState state = start_state(config, *ranks);
  ranks->agree("importing " + config.weights, [&] {
    if (session.rank() != 0) return;
    if (!config.overwrite && std::filesystem::exists(config.output))
      throw UsageError("import: " + config.output + " exists already; --overwrite replaces it");
    const data::SafetensorsReader file(config.weights);
    const std::string kept = adopt_statistics(state, file);
    const std::unique_ptr<UNet3d> model = make_model(state.config, state.in_channels);
    nn::ParameterArena arena(*model, DType::f32);
    nn::initialise(*model, state.config.train.seed);  // what no file has: heads of deep supervision
    for (const std::string& note : load_torch_tensors(file, *model))
      log_info(config.weights, ": ", note);
    if (!kept.empty()) log_info(kept);
    save_start(config.output, state, *model, arena);
    int64_t n_new = 0;
    for (const auto& [name, parameter] : nn::named_parameters(*model))
      if (UNet3d::is_deep_head(name)) n_new += parameter->shape.numel();
    if (n_new > 0)
      log_info("the heads of model.deep_supervision, ", n_new,
               " parameters, are in no such file: made anew");
    log_info("imported ", nn::parameter_count(*model) - n_new, " parameters from ", config.weights,
             ", settings from ", state.source == config.weights ? "its metadata" : state.source,
             ", to ", config.output, ": a run at update 0 of ", state.total_updates, " by ",
             state.world_size, state.world_size == 1 ? " rank" : " ranks",
             ", with a fresh optimizer");
  });
  return 0;
}

}  // namespace bora::unet3d
