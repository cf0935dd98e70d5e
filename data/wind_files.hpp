// SPDX-License-Identifier: Apache-2.0
// The files of a wind data set: found, paired and looked into before training begins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/collective.hpp"
#include "data/file_stamp.hpp"
#include "data/missing_cells.hpp"
#include "data/netcdf.hpp"
#include "data/normalise.hpp"
#include "data/preflight.hpp"
#include "data/split.hpp"
#include "data/wind_config.hpp"

namespace bora::data {

/// One case: a wind file and its mask.
struct WindCase {
  std::string name;       ///< "15VF20"
  std::string wind_path;  ///< empty: no truth is known (prediction)
  std::string mask_path;
  std::string group;     ///< layout: "20"
  double angle_deg = 0;  ///< NaN without angle patterns
  Dims3 grid;            ///< cells along x, y, z
  FileStamp wind_stamp, mask_stamp;
  std::optional<Moments> moments;  ///< of the open cells of the kept levels, where values were read
  MissingCells missing;            ///< open cells of these levels without a value, where so
  std::string wind_id;  ///< file_identity() of the wind file, as the rank sees it that pairs them
  /// What a manifest says, instead of the patterns for names.
  std::optional<std::string> listed_group;
  std::optional<double> listed_angle_deg;
  std::string part;  ///< "training", "validation", "test", or empty: by the split
};

/// The outcome of looking at a data set.
struct WindFiles {
  std::vector<WindCase> cases;        ///< sorted by name
  std::vector<std::string> problems;  ///< one line each, sorted; of cases that were left out
  PreflightReport preflight{};        ///< of the pairs; without the records
};

/// Finds all files below the two folders (also in folders inside) and pairs them, or takes those of
/// files.list (read_wind_list), and looks into each
/// by a pre-flight of the level files.preflight: variables, dimensions, types, equal grids and
/// coordinates; values as open_cells() and settle_wind() judge them.  Ranks share the work and all
/// get the same result (nullptr: this process alone).
/// Problems (a file without its partner, two files of one case, a name that does not fit or has no
/// angle or layout, an unreadable file, another form, values that cannot be): with on_bad_files =
/// refuse one Error lists them, with skip a warning does and the cases are left out.  No case left
/// is an Error.
WindFiles find_wind_files(const WindConfig& config, Collective* ranks = nullptr,
                          const PreflightHooks& hooks = {});

/// Opens one of a case's files; arrays without names of dimensions have files.order and files.axes.
NetcdfFile open_wind_file(const WindFilesConfig& files, const std::string& path);
/// Those names, slowest first: "z", "y", "x".
std::vector<std::string> unnamed_wind_axes(const WindFilesConfig& files);

/// The name of the case of a mask file: its file name without the mask suffix; without that, the
/// whole stem.
std::string wind_case_name(const WindConfig& config, const std::string& mask_path);

/// By the parts that a manifest gives, the others by their layouts: make_split with `parts`.
Split split_wind(const std::vector<WindCase>& cases, const SplitConfig& config);

/// A case of one mask file, without truth, for prediction.  `wind_path` may be given where there is
/// one.
WindCase open_wind_case(const WindConfig& config, const std::string& mask_path,
                        const std::string& wind_path = {});

}  // namespace bora::data
