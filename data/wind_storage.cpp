// SPDX-License-Identifier: Apache-2.0
#include "data/wind_storage.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "data/hdf5_layout.hpp"
#include "data/wind_files.hpp"

namespace bora::data {

VolumeInfo wind_storage(const WindFilesConfig& files, const std::string& path,
                        const std::string& variable) {
  hdf5::Lock lock;
  const NetcdfFile file = open_wind_file(files, path);
  const VariableInfo v = file.info(variable);
  const auto place = [&](size_t k) {
    const auto it = std::find(v.dimensions.begin(), v.dimensions.end(), files.axes.at(k));
    BORA_CHECK(it != v.dimensions.end(), "'", path, "', variable '", variable, "': no dimension '",
               files.axes[k], "'; it has ", hdf5::detail::list_of(v.dimensions));
    return static_cast<int>(it - v.dimensions.begin());
  };
  VolumeInfo info;
  info.source = {path, variable, files.order};
  describe_storage(file.hdf5().open_dataset(variable), {place(0), place(1), place(2)}, info);
  return info;
}

}  // namespace bora::data
