// SPDX-License-Identifier: Apache-2.0
// Whether the axes of volumes run as those did that a network was trained on: it learns on arrays,
// and a mirrored one is another picture to it.
#pragma once

#include <string>
#include <vector>

#include "data/checkpoint.hpp"

namespace bora::unet3d {

/// The checkpoint's entry, a text: VolumeCase::orientation of the training images, "RAS", where all
/// of them ran alike.  Older checkpoints, and runs whose volumes do not say it, have none.
inline constexpr const char* kOrientationEntry = "cases.orientation";

/// That entry; empty without one.
std::string trained_orientation(data::CheckpointReader& reader);

/// False only where both are known, by affines or both by coordinates, and differ.
bool orientations_agree(const std::string& a, const std::string& b);

struct OrientedFile {
  std::string path, orientation;  ///< as VolumeCase::orientation
};

/// The warning for those of `files` whose axes run otherwise than `trained` says, naming both and
/// what helps; empty if none does.  `checkpoint`: path of the network.
std::string orientation_warning(const std::string& checkpoint, const std::string& trained,
                                const std::vector<OrientedFile>& files);
/// Logs it, if there is one.
void warn_of_orientation(const std::string& checkpoint, const std::string& trained,
                         const std::vector<OrientedFile>& files);

}  // namespace bora::unet3d
