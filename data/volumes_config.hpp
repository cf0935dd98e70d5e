// SPDX-License-Identifier: Apache-2.0
// The settings of a data set of image, label and weight volumes: the table [volumes].
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "core/config.hpp"
#include "data/cache_config.hpp"
#include "data/transforms/config.hpp"

namespace bora::data {

struct VolumesConfig {
  std::string root;
  std::string list;
  std::string image_suffix = "_image.nii.gz";
  std::string label_suffix = "_label.nii.gz";
  std::string weight_suffix;
  std::string image_variable = "raw";
  std::string label_variable = "label";
  std::string weight_variable = "weight";
  std::string order;
  std::string group_pattern;
  std::vector<std::string> classes = {"background", "foreground"};
  std::vector<std::string> label_map;
  Dims3 patch{0, 0, 0};
  int64_t patches_per_volume = 1;
  double foreground = 0;
  bool foreground_by_class = false;
  std::string normalisation = "zscore";
  std::string normalise_cells = "all";
  std::vector<double> percentiles = {0.5, 99.5};
  std::string percentile_to = "unit";
  std::vector<double> fixed_mean, fixed_sigma;
  std::string padding = "zero";
  std::string missing = "refuse";
  double affine_tolerance_mm = 0.001;
  std::string on_bad_files = "refuse";
  std::string preflight = "auto";
  CacheConfig cache{.key = "volumes.cache"};
  TransformConfig transforms;

  static constexpr auto fields() {
    using C = VolumesConfig;
    return std::tuple{
        field("root", &C::root, "folder of the volumes"),
        field("list", &C::list,
              "file below the root that says which cases there are: names one a line, or a "
              "manifest (.csv); empty: the folder is searched"),
        field("image_suffix", &C::image_suffix, "an image file is called <case><suffix>"),
        field("label_suffix", &C::label_suffix,
              "a label file is called <case><suffix>; the image's suffix: both are in one file"),
        field("weight_suffix", &C::weight_suffix,
              "a file with the weights of the cells is called <case><suffix>; empty: no weights"),
        field("image_variable", &C::image_variable,
              "the image's variable in HDF5 and NetCDF files"),
        field("label_variable", &C::label_variable, "the label's"),
        field("weight_variable", &C::weight_variable, "the weights'"),
        field("order", &C::order,
              "axes of arrays without names (HDF5, .npy), slowest first: zyx, xyz, czyx, zyxc; "
              "empty: zyx, or czyx with four axes"),
        field("group_pattern", &C::group_pattern,
              "regular expression; its group is the patient in a case's name, for the split; "
              "empty: each case is a group"),
        field("classes", &C::classes, "names of the classes 0, 1, ...; class 0 is the background"),
        field("label_map", &C::label_map,
              "from values in the files to classes: 7:1, 1-999:1, 1000-:2, 255:ignore; 0 stays 0 "
              "unless it is listed; empty: the values are the classes"),
        field("patch", &C::patch, "cells of a training sample along x, y, z; 0: the whole volume",
              at_least(0)),
        field("patches_per_volume", &C::patches_per_volume,
              "patches of each training volume in an epoch", between(1, 1000000)),
        field("foreground", &C::foreground,
              "share of the training patches that are centred on a labelled cell", between(0, 1)),
        field("foreground_by_class", &C::foreground_by_class,
              "labelled cells: each class of the volume has the same chance, else each cell"),
        field("normalisation", &C::normalisation,
              "how the image is scaled: none; global: by mean and sigma of the training cases; "
              "zscore: by the volume's own; percentile: see percentiles; fixed: fixed_mean and "
              "fixed_sigma",
              one_of("none", "global", "zscore", "percentile", "fixed")),
        field("normalise_cells", &C::normalise_cells,
              "cells that statistics count: all, or those that are not 0",
              one_of("all", "nonzero")),
        field("percentiles", &C::percentiles,
              "normalisation = percentile: the two percentiles at which a volume is clipped",
              between(0, 100)),
        field("percentile_to", &C::percentile_to,
              "then: unit: to 0 .. 1; zscore: by the mean and sigma of the clipped values",
              one_of("unit", "zscore")),
        field("fixed_mean", &C::fixed_mean, "normalisation = fixed: one for each channel, or one"),
        field("fixed_sigma", &C::fixed_sigma, "normalisation = fixed: one for each channel, or one",
              positive),
        field(
            "padding", &C::padding,
            "the image beyond the volume, where a patch is larger: 0 of the scaled values, or the "
            "smallest value of the volume",
            one_of("zero", "minimum")),
        field("missing", &C::missing,
              "NaN in an image: stop, or leave the cells out of the region, as padding",
              one_of("refuse", "mask")),
        field("affine_tolerance_mm", &C::affine_tolerance_mm,
              "corners of an image and its label may lie so far apart by their affines",
              at_least(0)),
        field("on_bad_files", &C::on_bad_files,
              "cases with a missing, double, unreadable or ill-fitting file: stop, or leave them "
              "out with a warning",
              one_of("refuse", "skip")),
        field("preflight", &C::preflight,
              "what is looked at before the first step: headers; full: all values, too; auto: all "
              "values of small data sets, a part of those of large ones",
              one_of("auto", "full", "headers")),
        field("cache", &C::cache, "where volumes are kept once they were read"),
        field("transforms", &C::transforms, "variations of training samples"),
    };
  }
};

/// Throws UsageError naming the key for what cannot be: no root, fewer than two classes or more
/// than 254, a label_map that does not parse, percentiles that are not two in order, fixed without
/// mean and sigma, an order of axes that is none, labels with the image's suffix and variable; and
/// what check_transforms() refuses.
void check_volumes_config(const VolumesConfig& config);

}  // namespace bora::data
