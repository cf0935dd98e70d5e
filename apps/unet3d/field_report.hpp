// SPDX-License-Identifier: Apache-2.0
// What a field of a file holds, as text for a person.
#pragma once

#include <string>
#include <vector>

#include "data/value_summary.hpp"
#include "data/volume_file.hpp"

namespace bora::unet3d {

struct FieldReportOptions {
  std::string variable = {};  ///< empty: all that have three axes
  std::string order = {};     ///< VolumeSource::order
  bool values = true;         ///< read them
  std::string picture = {};   ///< PNG of the field; empty: none
};

/// Some lines: axes, units, orientation, chunks, codec, values.  Throws Error naming the file where
/// the field cannot be opened as a volume; that its values cannot be read is said, and a problem.
std::string report_field(const data::VolumeSource& source, const FieldReportOptions& options,
                         std::vector<std::string>& problems);

/// Of all values and channels of an open field.
data::ValueSummary summarise(const data::VolumeFile& file);

/// What a field may be by its values, name and unit, one sentence; empty where nothing fits.
std::string guess_kind(const data::VolumeInfo& info, const data::ValueSummary& values);

/// Bytes for people: "512 B", "1.2 MiB".
std::string bytes_text(int64_t bytes);

}  // namespace bora::unet3d
