// SPDX-License-Identifier: Apache-2.0
#include "data/volume_groups.hpp"

#include <filesystem>

#include "core/error.hpp"

namespace bora::data {
namespace {

namespace fs = std::filesystem;

fs::path below_root(const VolumesConfig& config, const fs::path& path) {
  return path.lexically_normal().lexically_relative(fs::path(config.root).lexically_normal());
}

}  // namespace

void part_namesakes(const VolumesConfig& config, const ImagesOfGroups& images,
                    std::vector<ListedVolume>& cases) {
  for (ListedVolume& v : cases) {
    const auto of_group = images.find(v.of.group);
    if (of_group == images.end() || of_group->second.size() < 2) continue;
    if (!of_group->second.contains(v.of.image.path)) continue;
    const fs::path image = v.of.image.path;
    const bool has_name = image.filename().string() != config.image_suffix;
    const fs::path folder = below_root(config, image.parent_path());
    v.of.group = (has_name ? folder / v.of.group : folder).lexically_normal().string();
  }
}

std::string folders_like_patients(const VolumesConfig& config, const ImagesOfGroups& images) {
  std::map<std::string, size_t> images_in;  // by the first folder below the root
  for (const auto& [group, paths] : images)
    for (const std::string& path : paths) {
      const fs::path relative = below_root(config, path);
      if (relative.has_parent_path()) ++images_in[relative.begin()->string()];
    }
  size_t n_several = 0;
  const std::pair<const std::string, size_t>* first = nullptr;
  for (const auto& folder : images_in)
    if (folder.second > 1 && n_several++ == 0) first = &folder;
  if (images_in.size() < 3 || first == nullptr) return {};
  return bora::detail::join(
      "volumes: ", n_several, " of ", images_in.size(), " folders in '", config.root,
      "' hold several images ('", first->first, "' ", first->second,
      "), each of which is a group of its own: a split may part them. If a folder is a patient, "
      "name it: by volumes.group_pattern, where names of cases have it, or in a manifest's column "
      "'group'");
}

}  // namespace bora::data
