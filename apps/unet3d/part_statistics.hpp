// SPDX-License-Identifier: Apache-2.0
// Statistics over a part of a data set: what its values are like, and what would suit them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/unet3d/data_commands.hpp"
#include "data/value_summary.hpp"

namespace bora::unet3d {

/// Sums over the cases of a part.
struct PartStatistics {
  /// One entry a channel (wind: one).  Moments are merged in the order of the cases, so they have
  /// the same bits on any number of ranks and threads; wind: the trainer's, too.
  std::vector<data::ValueSummary> channels;
  std::vector<std::vector<double>> case_means;  ///< of each channel, in the order of the cases
  int64_t n_cells = 0;                          ///< all cells that were looked at
  int64_t n_open = 0;                           ///< wind: open cells
  std::vector<int64_t> class_cells;             ///< volumes with labels: cells of each class
  std::vector<int64_t> class_cases;             ///< cases that have the class
  int64_t n_ignored = 0;                        ///< cells of no class
  double seconds = 0;
};

/// Collective.  Reads the cases `indices` once, shared among threads and ranks.  Wind: open cells
/// of the levels that samples have, in m/s, clipped as data.clip says.  Volumes: all cells of each
/// case's box, or those that are not 0 (volumes.normalise_cells).  Throws Error naming the files
/// that cannot be read.
PartStatistics part_statistics(const std::shared_ptr<const DataSet>& set,
                               const std::vector<int64_t>& indices, Collective& ranks,
                               const data::PreflightHooks& hooks);

/// What would suit: one line each, a key and why.
std::vector<std::string> suggestions(const DataSet& set, const PartStatistics& statistics);

}  // namespace bora::unet3d
