// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "apps/common/help.hpp"
#include "apps/unet3d/commands.hpp"
#include "apps/unet3d/exchange.hpp"
#include "apps/unet3d/onnx_export.hpp"
#include "apps/unet3d/setup.hpp"
#include "apps/unet3d/start_state.hpp"
#include "comm/communicator.hpp"
#include "core/log.hpp"

namespace bora::unet3d {
namespace {

struct ExportConfig {
  std::string checkpoint;
  std::string output;
  std::string format = "auto";
  std::string weights = "auto";
  bool physical = false;
  bool overwrite = false;
  static constexpr auto fields() {
    return std::tuple{
        field("checkpoint", &ExportConfig::checkpoint, "the network: best.h5 or last.h5 of a run"),
        field("output", &ExportConfig::output,
              "the file to write; empty: model.safetensors or model.onnx"),
        field("format", &ExportConfig::format,
              "safetensors: weights, which come back by import; onnx: the whole network, for other "
              "programs; auto: onnx if the output's name ends in .onnx",
              one_of("auto", "safetensors", "onnx")),
        field("weights", &ExportConfig::weights,
              "model: those that training works with; ema: their average (train.ema); auto: the "
              "average where the checkpoint has one",
              one_of("auto", "model", "ema")),
        field("physical", &ExportConfig::physical,
              "onnx: the network gives m/s, and 0 in buildings, instead of units of sigma"),
        field("overwrite", &ExportConfig::overwrite, "replace the file if there is one")};
  }
};

/// A name that leaves the format open.
void check_ending(const ExportConfig& c) {
  if (c.format == "auto" && !c.output.empty() && !c.output.ends_with(".onnx") &&
      !c.output.ends_with(".safetensors"))
    throw UsageError("export: --output=" + c.output +
                     ": wanted a name in .safetensors or .onnx, or --format to say which");
}

/// Settles format and output; throws UsageError where they contradict each other.
void settle(ExportConfig& c) {
  if (c.checkpoint.empty())
    throw UsageError("export: --checkpoint=FILE is wanted (best.h5 of a run)");
  if (c.format == "auto") c.format = c.output.ends_with(".onnx") ? "onnx" : "safetensors";
  if (c.output.empty()) c.output = "model." + c.format;
  for (const std::string other : {"safetensors", "onnx"})
    if (other != c.format && c.output.ends_with("." + other))
      throw UsageError("export: --output=" + c.output + " with --format=" + c.format +
                       ": the name ends as a file of " + other);
  if (c.physical && c.format != "onnx")
    throw UsageError("export: --physical is for --format=onnx; a safetensors file holds weights");
}

void check_files(const ExportConfig& c) {
  for (const std::string& path : {c.output, onnx::data_path(c.output)}) {
    if (path != c.output && c.format != "onnx") continue;
    std::error_code none;
    if (std::filesystem::equivalent(c.checkpoint, path, none))
      throw UsageError("export: the output " + path + " is the checkpoint itself");
    if (!c.overwrite && std::filesystem::exists(path))
      throw UsageError("export: " + path + " exists already; --overwrite replaces it");
  }
}

/// Those that leave: without heads that only training uses.
int64_t exported_parameters(UNet3d& model) {
  int64_t n = 0;
  for (const auto& [name, parameter] : nn::named_parameters(model))
    if (!UNet3d::is_deep_head(name)) n += parameter->shape.numel();
  return n;
}

/// What was written, for the log.
std::string export_weights(const ExportConfig& c, const TrainedModel& trained,
                           const StartState& state) {
  const std::vector<data::NamedTensor> tensors = torch_tensors(*trained.model);
  data::TextMap texts = metadata_of(state);
  texts["bora.weights"] = name_of(trained.weights);
  data::write_safetensors(c.output, tensors, texts);
  return detail::join(tensors.size(), " tensors, ", exported_parameters(*trained.model),
                      " parameters, to ", c.output);
}

std::string export_network(const ExportConfig& c, const TrainedModel& trained,
                           const StartState& state) {
  if (c.physical) require_task(trained, "wind", "export: --physical");
  if (c.physical && trained.normaliser.mode() == data::NormMode::per_sample)
    throw UsageError("export: --physical: " + c.checkpoint +
                     " was trained with per_sample normalisation, so a field without its truth "
                     "has no scale in m/s; train with data.normalisation=global");
  const OnnxUnits units = c.physical ? OnnxUnits::physical : OnnxUnits::normalised;
  onnx::Model network = onnx_model(*trained.model, units, trained.normaliser.scaling());
  describe(network, state, units);
  network.metadata["bora.weights"] = name_of(trained.weights);
  const bool apart = onnx::write(c.output, network);
  return detail::join(network.nodes.size(), " operations of ONNX's set ", network.opset, ", ",
                      exported_parameters(*trained.model), " parameters, to ", c.output,
                      apart ? " and, with the weights, " + onnx::data_path(c.output) : "");
}

}  // namespace

int export_command(MpiSession& session, const std::vector<std::string>& args) {
  ExportConfig config;
  const ConfigArgs given = config_parse_args(
      config, "unet3d export", args,
      {.about = "Writes the network of a checkpoint for other programs: its weights as "
                "safetensors, with the names and layouts of the same network in PyTorch, or the "
                "whole of it as ONNX (docs/exchanging-weights.md).",
       .positionals = {}});
  if (apps::print_help(session, given)) return 0;
  const ExportConfig asked = config;
  settle(config);
  const std::unique_ptr<Collective> ranks = make_communicator(session);
  ranks->agree("exporting " + config.checkpoint, [&] {
    if (session.rank() != 0) return;
    check_files(config);
    check_ending(asked);
    const TrainedModel trained =
        load_trained(config.checkpoint, cpu(), weights_from(config.weights));
    const StartState state = start_state_of_checkpoint(config.checkpoint);
    const std::string what = config.format == "onnx" ? export_network(config, trained, state)
                                                     : export_weights(config, trained, state);
    log_info("exported ", config.checkpoint, " (", trained.updates, " updates",
             trained.weights == Weights::ema ? ", the average of the weights" : "", "): ", what);
  });
  return 0;
}

}  // namespace bora::unet3d
