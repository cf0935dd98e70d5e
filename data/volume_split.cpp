// SPDX-License-Identifier: Apache-2.0
#include "data/volume_cases.hpp"

namespace bora::data {

Split split_volumes(const std::vector<VolumeCase>& cases, const SplitConfig& config) {
  std::vector<std::string> names, groups, parts;
  for (const VolumeCase& c : cases) {
    names.push_back(c.name);
    groups.push_back(c.group);
    parts.push_back(c.part);
  }
  return make_split(names, groups, parts, config);
}

}  // namespace bora::data
