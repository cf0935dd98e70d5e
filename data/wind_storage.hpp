// SPDX-License-Identifier: Apache-2.0
// How a variable of a wind case is stored.
#pragma once

#include <string>

#include "data/volume_file.hpp"
#include "data/wind_config.hpp"

namespace bora::data {

/// Source, grid along files.axes, stored type, chunk, codec and sizes; nothing of the values.
/// Throws Error naming the file for a variable without these axes.
VolumeInfo wind_storage(const WindFilesConfig& files, const std::string& path,
                        const std::string& variable);

}  // namespace bora::data
