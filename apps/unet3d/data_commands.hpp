// SPDX-License-Identifier: Apache-2.0
// The commands behind "unet3d data": each takes what stands behind its name and returns the exit
// code.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/unet3d/config.hpp"
#include "comm/mpi.hpp"
#include "core/collective.hpp"
#include "data/split.hpp"
#include "data/volume_dataset.hpp"
#include "data/wind_dataset.hpp"

namespace bora::unet3d {

int data_inspect_command(MpiSession& session, const std::vector<std::string>& args);
int data_check_command(MpiSession& session, const std::vector<std::string>& args);
int data_convert_command(MpiSession& session, const std::vector<std::string>& args);
int data_stats_command(MpiSession& session, const std::vector<std::string>& args);
int data_split_command(MpiSession& session, const std::vector<std::string>& args);

/// Collective: the ranks of a command whose keys are those of training and some more, waiting as
/// config.comm says.  `settings`: what all of them must have been started with (config_text, and
/// the files named).
std::unique_ptr<Collective> open_ranks(MpiSession& session, const Config& config,
                                       const std::string& settings);

/// Where volumes.root is given and data.root is not, volumes are meant: sets the task so.
void settle_task(Config& config);

/// The data set of a configuration, of whichever task: found and looked into.
struct DataSet {
  std::unique_ptr<data::WindDataset> wind;  ///< one of both
  std::unique_ptr<data::VolumeDataset> volumes;
  std::string root;

  const data::Dataset& all() const;
  int64_t size() const { return all().size(); }
  /// What a case's files are: ("wind", path), ("mask", path), ("image", path), ...
  std::vector<std::pair<std::string, std::string>> files(int64_t index) const;
  data::Split split(const data::SplitConfig& config) const;
};
/// Collective.  As training opens it; throws what that throws.
DataSet open_data_set(const Config& config, Collective& ranks, const data::PreflightHooks& hooks);

}  // namespace bora::unet3d
