// SPDX-License-Identifier: Apache-2.0
// From a folder, a list or a manifest to the files of each case; nothing is opened but the list.
#pragma once

#include <string>
#include <vector>

#include "data/volume_cases.hpp"

namespace bora::data {

/// A case before its files were opened: its box is still a text.
struct ListedVolume {
  VolumeCase of;
  std::string box;  ///< Box::parse; empty: all cells
};
struct ListedVolumes {
  std::vector<ListedVolume> cases;    ///< sorted by name
  std::vector<std::string> problems;  ///< cases without a file, two of one name; one line each
};

/// See find_volume_cases.  Throws Error for a folder that is not there, UsageError with file and
/// line for a list that does not say what it must.
ListedVolumes list_volumes(const VolumesConfig& config);

/// The sources of one case's files, with the variables and the order of axes that their formats
/// take.
VolumeSource volume_source(const VolumesConfig& config, const std::string& path,
                           const std::string& variable);

/// The same list as text for other ranks, and back.
std::string pack_volumes(const ListedVolumes& volumes);
ListedVolumes unpack_volumes(const std::string& text);

}  // namespace bora::data
