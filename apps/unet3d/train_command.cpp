// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "apps/common/help.hpp"
#include "apps/train/run.hpp"
#include "apps/unet3d/commands.hpp"
#include "apps/unet3d/segmentation_task.hpp"
#include "apps/unet3d/wind_task.hpp"

namespace bora::unet3d {
namespace {

/// Runs `body`; an Error for want of memory also says which settings memory goes by.  It is known
/// by its words: contexts keep the message and whether it is a UsageError, no other type.
template <class Body>
auto with_memory_advice(const Config& config, Body&& body) {
  try {
    return body();
  } catch (const UsageError&) {
    throw;
  } catch (const Error& e) {
    const std::string_view text = e.what();
    if (text.find("out of host memory") == text.npos && text.find("out of memory") == text.npos)
      throw;
    throw Error(detail::join(
        e.what(), " (now train.batch=", config.train.batch,
        is_segmentation(config) ? ", volumes.patch=" : ", data.shape=",
        is_segmentation(config) ? config.volumes.patch : config.data.shape, ", model.base=",
        config.model.base, ", model.recompute=", config.model.recompute ? "true" : "false",
        "; a smaller batch with as much larger train.accumulate is the same update)"));
  }
}

}  // namespace

int train_command(MpiSession& session, const std::vector<std::string>& all_args) {
  Config config;
  std::vector<std::string> args = all_args;
  const train::RunMode mode = train::take_dry_run(args);
  const ConfigArgs given = config_parse_args(
      config, "unet3d train", args,
      {.about = "Trains a 3-D U-Net: one that maps building masks to wind speed, or, with "
                "task=segmentation, one that names the class of each cell of an image "
                "(docs/segmentation.md).\n\nWith the switch "
                "--dry-run it only checks settings, data and output folder, prints the plan and "
                "says whether it will fit into memory (docs/dry-run.md); exit code 2 if not.",
       .positionals = {}});
  if (apps::print_help(session, given)) return 0;
  config.data.cache.only_looks = config.volumes.cache.only_looks = mode == train::RunMode::dry;
  return with_memory_advice(config, [&] {
    return train::run_task(
        session, config, config_text(config),
        [&](Collective& ranks) -> std::unique_ptr<train::Task> {
          if (is_segmentation(config)) return std::make_unique<SegmentationTask>(config, ranks);
          return std::make_unique<WindTask>(config, ranks);
        },
        mode);
  });
}

}  // namespace bora::unet3d
