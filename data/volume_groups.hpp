// SPDX-License-Identifier: Apache-2.0
// Groups of volumes that nobody named: what a split keeps together.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "data/volume_list.hpp"

namespace bora::data {

/// Images by the group that their file names gave them, where neither a manifest nor group_pattern
/// did.
using ImagesOfGroups = std::map<std::string, std::set<std::string>>;

/// Images of one name in several folders (p1/scan_image.nii, p2/scan_image.nii) are no group: there
/// the path below the root becomes the name of the group.
void part_namesakes(const VolumesConfig& config, const ImagesOfGroups& images,
                    std::vector<ListedVolume>& cases);

/// A line for folders that look like patients: at least three below the root hold the images, and
/// some of them several, each a group of its own.  Empty if they do not.
std::string folders_like_patients(const VolumesConfig& config, const ImagesOfGroups& images);

}  // namespace bora::data
