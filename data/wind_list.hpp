// SPDX-License-Identifier: Apache-2.0
// Wind cases from a list file or a manifest CSV, instead of a search in folders.
#pragma once

#include "data/wind_config.hpp"
#include "data/wind_files.hpp"

namespace bora::data {

/// Appends the cases of `config.files.list` (below the root unless absolute; forms: case_table.hpp)
/// with name, paths, and what the table says of layout and angle, and as problems with file and
/// line: a file that is missing, a case that is listed twice, a name that is empty or cannot be
/// one, an empty cell of the group or angle.  A line of a list file is a case's name, or the path
/// of its mask file below the list's folder.  Columns with other names are left alone.
/// Throws UsageError as read_case_table does, for a column that is configured and missing, for an
/// angle that is no number, and when neither name nor mask has a column.
void read_wind_list(const WindConfig& config, WindFiles& out);

}  // namespace bora::data
