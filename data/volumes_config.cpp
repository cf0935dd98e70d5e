// SPDX-License-Identifier: Apache-2.0
#include "data/volumes_config.hpp"

#include <algorithm>
#include <set>

#include "core/error.hpp"
#include "data/label_map.hpp"

namespace bora::data {

void check_volumes_config(const VolumesConfig& config) {
  const auto refuse = [](const auto&... parts) { throw UsageError(bora::detail::join(parts...)); };
  if (config.root.empty()) refuse("volumes.root is not set: wanted the folder of the volumes");
  if (config.image_suffix.empty() || config.label_suffix.empty())
    refuse("volumes.", config.image_suffix.empty() ? "image_suffix" : "label_suffix",
           " is empty: wanted the end of the names of those files, as -mask.nii.gz");
  const size_t n = config.classes.size();
  if (n < 2 || n > 254)
    refuse("volumes.classes has ", n, " name(s), wanted 2 to 254, the background first");
  std::set<std::string> names;
  for (const std::string& name : config.classes)
    if (!names.insert(name).second)
      refuse("volumes.classes has the name '", name, "' twice: wanted one for each class");
  LabelMap{config};
  if (config.label_suffix == config.image_suffix && config.label_variable == config.image_variable)
    refuse("volumes: image and label are the same variable '", config.label_variable,
           "' of the same files: wanted another label_suffix or label_variable");
  const std::vector<double>& p = config.percentiles;
  if (config.normalisation == "percentile" && (p.size() != 2 || !(p[0] < p[1])))
    refuse("volumes.percentiles has ", p.size(), " numbers",
           p.size() == 2 ? ", the larger first" : "", "; wanted the lowest and the highest");
  if (config.normalisation == "fixed") {
    if (config.fixed_mean.empty() || config.fixed_mean.size() != config.fixed_sigma.size())
      refuse(
          "volumes.normalisation = fixed wants volumes.fixed_mean and volumes.fixed_sigma, one "
          "number each or one for each channel; they have ",
          config.fixed_mean.size(), " and ", config.fixed_sigma.size());
  }
  std::string axes = config.order;
  if (!axes.empty()) {
    std::string sorted = axes;
    std::sort(sorted.begin(), sorted.end());
    if (sorted != "xyz" && sorted != "cxyz")
      refuse("volumes.order is '", axes, "', wanted x, y and z, and c where there are channels, ",
             "slowest first: zyx, czyx, zyxc");
  }
  check_transforms(config.transforms,
                   {.patch = config.patch, .n_classes = static_cast<int64_t>(n)});
}

}  // namespace bora::data
