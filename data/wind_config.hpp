// SPDX-License-Identifier: Apache-2.0
// The settings of a wind data set: where files are, what they are called, and what becomes of them.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "core/config.hpp"
#include "data/angle.hpp"
#include "data/augment.hpp"
#include "data/cache_config.hpp"
#include "data/wind_columns.hpp"

namespace bora::data {

struct WindFilesConfig {
  std::string wind_folder = "wind_speed_filled";
  std::string mask_folder = "mask_buildings";
  std::string wind_suffix = "_ws_filled.nc";
  std::string mask_suffix = "_ws_building_mask.nc";
  std::string wind_variable = "wind_speed";
  std::string mask_variable = "building_mask";
  std::vector<std::string> axes = {"x", "y", "z"};
  std::string order = "zyx";
  double mask_building = -1;
  double mask_open = 1;
  std::string layout_pattern = "VF([0-9]+)";
  std::vector<std::string> angle_patterns = AnglePatterns::defaults();
  std::string on_bad_files = "refuse";
  std::string missing = "refuse";
  std::vector<double> range;
  std::string preflight = "auto";
  std::string list;
  WindColumnsConfig columns;

  static constexpr auto fields() {
    using C = WindFilesConfig;
    return std::tuple{
        field("wind_folder", &C::wind_folder, "folder of the wind files, below the root"),
        field("mask_folder", &C::mask_folder, "folder of the mask files, below the root"),
        field("wind_suffix", &C::wind_suffix, "a wind file is called <case><suffix>"),
        field("mask_suffix", &C::mask_suffix, "a mask file is called <case><suffix>"),
        field("wind_variable", &C::wind_variable, "variable with the wind speed in m/s"),
        field("mask_variable", &C::mask_variable, "variable with the building mask"),
        field("axes", &C::axes,
              "names of the dimensions along x, y and z, in any order in the file"),
        field("order", &C::order,
              "axes of an array without names of dimensions (HDF5), slowest first; c: one that has "
              "one cell (a channel)"),
        field("mask_building", &C::mask_building, "value of the mask inside buildings"),
        field("mask_open", &C::mask_open, "value of the mask in open cells"),
        field("layout_pattern", &C::layout_pattern,
              "regular expression; its group is the layout in a case's name, for the split by "
              "geometry; empty: each case is a layout"),
        field("angle_patterns", &C::angle_patterns,
              "regular expressions; the group is the angle in a case's name; none: no angles"),
        field("on_bad_files", &C::on_bad_files,
              "files that are unpaired, double, unreadable or of another form: stop, or leave the "
              "case out with a warning",
              one_of("refuse", "skip")),
        field("missing", &C::missing,
              "missing values (NaN, fill value) in open cells: stop, or leave the cells out of the "
              "region",
              one_of("refuse", "mask")),
        field("range", &C::range,
              "lowest and highest wind speed in m/s that can be; a file with another value is bad; "
              "empty: any"),
        field("preflight", &C::preflight,
              "what is looked into before the first step: full: all values; headers: what the "
              "files say of themselves; auto: values, too, of every case up to 1 GiB of files, "
              "beyond that of as many cases as make 1 GiB",
              one_of("auto", "full", "headers")),
        field("list", &C::list,
              "list file or manifest (.csv) of the cases, below the root; empty: all files with "
              "the suffixes"),
        field("columns", &C::columns, "columns of a manifest"),
    };
  }
};

struct WindConfig {
  std::string root;
  Dims3 shape{0, 0, 0};
  std::string normalisation = "global";
  std::vector<double> clip;
  bool angle_channels = false;
  std::string wind_direction = "fixed";
  WindFilesConfig files;
  AugmentConfig augment;
  CacheConfig cache{.key = "data.cache"};

  static constexpr auto fields() {
    using C = WindConfig;
    return std::tuple{
        field("root", &C::root, "folder of the data set"),
        field("shape", &C::shape, "cells of a sample along x, y, z; 0: as in the file",
              at_least(0)),
        field("normalisation", &C::normalisation, "how the wind speed is scaled",
              one_of("global", "per_sample", "none")),
        field("clip", &C::clip,
              "lowest and highest wind speed in m/s that are kept; empty: no clip"),
        field("angle_channels", &C::angle_channels, "give sin and cos of the angle to the network"),
        field("wind_direction", &C::wind_direction,
              "fixed: the wind blows along +x in every file and the angle says how the layout is "
              "turned; angle: it blows towards the angle in the name",
              one_of("fixed", "angle")),
        field("files", &C::files, "names and contents of the files"),
        field("augment", &C::augment, "variations of training samples"),
        field("cache", &C::cache, "what training keeps of the files it has read"),
    };
  }
};

/// Throws UsageError naming the key for what cannot be: no root, a list of another length than it
/// must have, equal mask values, variations that would make labels false.
void check_wind_config(const WindConfig& config);

}  // namespace bora::data
