// SPDX-License-Identifier: Apache-2.0
#include "apps/common/same_settings.hpp"
#include "apps/train/parallel.hpp"
#include "apps/unet3d/data_commands.hpp"
#include "comm/communicator.hpp"

namespace bora::unet3d {

std::unique_ptr<Collective> open_ranks(MpiSession& session, const Config& config,
                                       const std::string& settings) {
  std::unique_ptr<Collective> ranks =
      make_communicator(session, train::communicator_options(config.comm));
  apps::require_same_settings(*ranks, settings);
  return ranks;
}

const data::Dataset& DataSet::all() const {
  if (wind) return *wind;
  BORA_CHECK(volumes, "DataSet: empty");
  return *volumes;
}

std::vector<std::pair<std::string, std::string>> DataSet::files(int64_t index) const {
  std::vector<std::pair<std::string, std::string>> files;
  if (wind) {
    files = {{"wind", wind->at(index).wind_path}, {"mask", wind->at(index).mask_path}};
  } else {
    const data::VolumeCase& c = volumes->at(index);
    files = {{"image", c.image.path}, {"label", c.label.path}, {"weight", c.weight.path}};
  }
  std::erase_if(files, [](const auto& file) { return file.second.empty(); });
  return files;
}

data::Split DataSet::split(const data::SplitConfig& config) const {
  return wind ? data::split_wind(wind->cases(), config)
              : data::split_volumes(volumes->cases(), config);
}

void settle_task(Config& config) {
  if (config.data.root.empty() && !config.volumes.root.empty()) config.task = "segmentation";
}

DataSet open_data_set(const Config& config, Collective& ranks, const data::PreflightHooks& hooks) {
  DataSet set;
  if (is_segmentation(config)) {
    set.root = config.volumes.root;
    data::VolumesConfig volumes = config.volumes;
    volumes.cache.kind = "none";  // a look reads each file once, and leaves nothing behind
    set.volumes = std::make_unique<data::VolumeDataset>(volumes, &ranks, hooks);
  } else {
    if (config.data.root.empty())
      throw UsageError(
          "neither data.root nor volumes.root is set: wanted the folder of the cases "
          "(--data.root=DIR, --volumes.root=DIR)");
    set.root = config.data.root;
    set.wind = std::make_unique<data::WindDataset>(config.data, &ranks, hooks);
  }
  return set;
}

}  // namespace bora::unet3d
