// SPDX-License-Identifier: Apache-2.0
// What a file holds, as text for a person: its format, attributes, and each of its fields.
#pragma once

#include <string>
#include <vector>

#include "apps/unet3d/field_report.hpp"

namespace bora::unet3d {

/// Some lines.  Fields, attributes and values that cannot be read are said so, with what is wrong
/// in `problems`, and the others told.  Throws Error naming the file where it holds nothing that
/// can be read, or not what `options` ask for.
std::string report_file(const std::string& path, const FieldReportOptions& options,
                        std::vector<std::string>& problems);

}  // namespace bora::unet3d
