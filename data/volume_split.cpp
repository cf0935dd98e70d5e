// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "core/error.hpp"
#include "data/volume_cases.hpp"

namespace bora::data {

Split split_volumes(const std::vector<VolumeCase>& cases, const SplitConfig& config) {
  std::vector<std::string> names, groups;
  std::vector<int64_t> open;  // indices of the cases without a part
  std::map<std::string, const VolumeCase*> fixed_groups;
  for (const VolumeCase& c : cases)
    if (!c.part.empty()) fixed_groups.emplace(c.group, &c);
  Split split;
  bool has_validation = false, has_test = false;
  for (size_t i = 0; i < cases.size(); ++i) {
    const VolumeCase& c = cases[i];
    const auto index = static_cast<int64_t>(i);
    if (c.part.empty()) {
      const auto sister = fixed_groups.find(c.group);
      if (sister != fixed_groups.end())
        throw UsageError("split: case '" + c.name + "' has no part, but '" + sister->second->name +
                         "' of its group '" + c.group + "' is in the " + sister->second->part +
                         " part: give each case of a group a part, or none");
      open.push_back(index);
      names.push_back(c.name);
      groups.push_back(c.group);
      continue;
    }
    has_validation = has_validation || c.part == "validation";
    has_test = has_test || c.part == "test";
    (c.part == "training" ? split.train
     : c.part == "test"   ? split.test
                          : split.validation)
        .push_back(index);
  }
  if (!open.empty()) {
    SplitConfig rest = config;
    if (has_validation) rest.validation = 0;
    if (has_test) rest.test = 0;
    const Split more = make_split(names, groups, rest);
    const auto take = [&](const std::vector<int64_t>& from, std::vector<int64_t>& to) {
      for (const int64_t i : from) to.push_back(open[static_cast<size_t>(i)]);
      std::sort(to.begin(), to.end());
    };
    take(more.train, split.train);
    take(more.validation, split.validation);
    take(more.test, split.test);
  }
  if (split.train.empty()) throw UsageError("split: no case is left for training");
  return split;
}

}  // namespace bora::data
