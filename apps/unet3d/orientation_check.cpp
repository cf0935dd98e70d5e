// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/orientation_check.hpp"

#include "core/error.hpp"
#include "core/log.hpp"

namespace bora::unet3d {
namespace {

/// "x+ y+ z-", as files without an affine say it.
bool is_by_coordinates(const std::string& orientation) {
  return orientation.find(' ') != std::string::npos;
}

}  // namespace

std::string trained_orientation(data::CheckpointReader& reader) {
  return reader.has(kOrientationEntry) ? reader.peek<std::string>(kOrientationEntry) : "";
}

bool orientations_agree(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty() || is_by_coordinates(a) != is_by_coordinates(b)) return true;
  return a == b;
}

std::string orientation_warning(const std::string& checkpoint, const std::string& trained,
                                const std::vector<OrientedFile>& files) {
  constexpr size_t kNamed = 3;
  std::string names;
  size_t n = 0;
  for (const OrientedFile& f : files) {
    if (orientations_agree(trained, f.orientation)) continue;
    if (n++ < kNamed) names += (n == 1 ? "'" : ", '") + f.path + "' (" + f.orientation + ")";
  }
  if (n == 0) return {};
  return detail::join(
      "the axes of ", n, " of ", files.size(), files.size() == 1 ? " image" : " images", " run ",
      "otherwise than those of the volumes that the network of ", checkpoint, " was trained on (",
      trained, "): ", names, n > kNamed ? ", ..." : "", "; it sees them mirrored or turned. ",
      is_by_coordinates(trained) ? "Turn such axes in the files, with ncpdq -a -NAME say"
      : trained == "RAS"         ? "unet3d data convert --orientation=ras turns them"
                                 : "Turn them to " + trained +
                               ", or train on what unet3d data convert --orientation=ras writes");
}

void warn_of_orientation(const std::string& checkpoint, const std::string& trained,
                         const std::vector<OrientedFile>& files) {
  const std::string warning = orientation_warning(checkpoint, trained, files);
  if (!warning.empty()) log_warn(warning);
}

}  // namespace bora::unet3d
